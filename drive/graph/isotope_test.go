package graph_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study/protocol"
)

const isotopeFile = `apiVersion: v1alpha1
kind: MockServiceGraph
defaults:
  type: grpc
  requestSize: 1 KB
  responseSize: 16k
  numReplicas: 3
services:
- name: a
  errorRate: 0.01%
  script:
  - sleep: 100ms
- name: b
  type: http
  numReplicas: 1
  responseSize: 1.5MiB
- name: c
  script:
  - call:
      service: a
      size: 10K
      probability: 25
  - sleep: 5ms
  - call: b
- name: d
  isEntrypoint: true
  errorRate: 0.5
  script:
  - sleep: 10ms
  - - call: a
    - call: c
`

func TestReadIsotope(t *testing.T) {
	got, err := graph.ReadIsotope([]byte(isotopeFile))
	if err != nil {
		t.Fatal(err)
	}
	call := func(to string, bytes int64, probability float64) graph.Call {
		return graph.Call{To: to, RequestBytes: bytes, Probability: probability, Times: 1}
	}
	sleep := func(d time.Duration) graph.ServiceTime {
		return graph.ServiceTime{Distribution: graph.Fixed, Mean: d}
	}
	want := graph.Graph{Services: []graph.Service{
		{Name: "a", Replicas: 3, Protocol: protocol.GRPC, ResponseBytes: 16384, ServiceTime: sleep(100 * time.Millisecond), Failures: []graph.Failure{{Share: 0.0001, How: graph.FailStatus, Status: 500}}, Mode: graph.Sequence},
		{Name: "b", Replicas: 1, Protocol: protocol.HTTP1, ResponseBytes: 3 << 19, Mode: graph.Sequence},
		{Name: "c", Replicas: 3, Protocol: protocol.GRPC, ResponseBytes: 16384, ServiceTime: sleep(5 * time.Millisecond), Calls: []graph.Call{call("a", 10240, 0.25), call("b", 1024, 1)}, Mode: graph.Sequence},
		{Name: "d", Replicas: 3, Protocol: protocol.GRPC, ResponseBytes: 16384, ServiceTime: sleep(10 * time.Millisecond), Failures: []graph.Failure{{Share: 0.5, How: graph.FailStatus, Status: 500}}, Calls: []graph.Call{call("a", 1024, 1), call("c", 1024, 1)}, Mode: graph.Parallel},
	}}
	if !reflect.DeepEqual(got.Graph, want) {
		t.Errorf("got  %+v\nwant %+v", got.Graph, want)
	}
	if fmt.Sprint(got.Entries) != "[d]" {
		t.Errorf("entries %v", got.Entries)
	}
	if len(got.Warnings) != 1 || got.Warnings[0].Line != 23 || got.Warnings[0].Path != "services.c.script[1]" {
		t.Errorf("warnings %q", got.Warnings)
	}
}

// TestIsotopeProblems: what cannot be is refused, and what cannot be
// expressed is told, each with its line.
func TestIsotopeProblems(t *testing.T) {
	for _, test := range []struct {
		name, text string
		warning    bool
		want       string // place, path and words
	}{
		{"calls partly at once", "services:\n- {name: a}\n- {name: b}\n- name: d\n  script:\n  - - call: a\n    - call: b\n  - call: b\n", true, "6:5: services.d.script[0]: calls of d are partly at once"},
		{"calls partly at once, later", "services:\n- {name: a}\n- {name: b}\n- name: d\n  script:\n  - call: b\n  - - call: a\n    - call: b\n", true, "7:5: services.d.script[1]: calls of d are partly at once"},
		{"a sleep beside calls", "services:\n- {name: a}\n- name: d\n  script: [[{sleep: 1s}, {call: a}]]\n", true, "4:12: services.d.script[0]: a sleep beside calls"},
		{"a namespace", "services:\n- name: a\n  namespace: x\n", true, "3:3: services.a.namespace: all services are in one namespace"},
		{"an unknown field", "defaults: {numRbacPolicies: 3}\nservices: [{name: a}]\n", true, "1:12: defaults.numRbacPolicies: field \"numRbacPolicies\" is left out"},
		{"an unknown field of a call", "services: [{name: a}, {name: b, script: [{call: {service: a, extra-header: {x: y}}}]}]\n", true, "extra-header"},
		{"default", "default: {type: grpc}\nservices: [{name: a}]\n", true, "isotope reads defaults"},
		{"no replicas", "services: [{name: a, numReplicas: 0}]\n", true, "gets one"},

		{"a circle", "services:\n- name: a\n  script:\n  - call: b\n- name: b\n  script:\n  - call: a\n", false, "7:11: services.b.calls[0].to: calls go round in a circle: a -> b -> a"},
		{"an unknown service", "services:\n- name: a\n  script:\n  - call: {service: zz}\n", false, "services.a.calls[0].to: there is no service \"zz\""},
		{"a name twice", "services:\n- name: a\n- name: a\n", false, "3:9: services[1].name: \"a\" is the name of another service"},
		{"no name", "services:\n- type: http\n", false, "2:3: services[0]: a service lacks its name"},
		{"a name no Service can have", "services:\n- name: A_b\n", false, "2:9: services[0].name"},
		{"a list in a list", "services:\n- name: a\n  script: [[[{sleep: 1s}]]]\n", false, "cannot hold another list"},
		{"two commands in one", "services:\n- name: a\n  script: [{sleep: 1s, call: a}]\n", false, "services.a.script[0]: a command has one name"},
		{"an unknown command", "services:\n- name: a\n  script: [{dance: 1s}]\n", false, "unknown command \"dance\""},
		{"a sleep without end", "services:\n- name: a\n  script: [{sleep: 100h}]\n", false, "out of range"},
		{"a negative sleep", "services:\n- name: a\n  script: [{sleep: -1s}]\n", false, "out of range"},
		{"a sleep of what", "services:\n- name: a\n  script: [{sleep: long}]\n", false, "\"long\" is no time"},
		{"a share above all", "services: [{name: a, errorRate: 150%}]\n", false, "no share"},
		{"no share", "services: [{name: a, errorRate: NaN}]\n", false, "no share"},
		{"no size", "services: [{name: a, responseSize: -5}]\n", false, "no size"},
		{"a size beyond sense", "services: [{name: a, responseSize: 5 PB}]\n", false, "too large"},
		{"an unknown type", "services: [{name: a, type: tcp}]\n", false, "unknown type"},
		{"a probability above all", "services: [{name: a}, {name: b, script: [{call: {service: a, probability: 101}}]}]\n", false, "whole number from 0 to 100"},
		{"replicas beyond sense", "services: [{name: a, numReplicas: 100000}]\n", false, "no number of replicas"},
		{"a script that is none", "services: [{name: a, script: x}]\n", false, "a script is a list"},
		{"no services", "defaults: {}\n", false, "a list of services"},
		{"services that are none", "services: 5\n", false, "a list of services"},
		{"a field twice", "services: []\nservices: []\n", false, "services"},
		{"nothing", "", false, "nothing is in it"},
		{"a list", "[]", false, "a graph is a mapping"},
		{"no YAML", "services: [", false, "1:"},
		{"an alias", "x: &a {b: 1}\nservices: *a\n", false, "anchors"},
		{"two documents", "services: [{name: a}]\n---\nservices: []\n", false, "a second document"},
		{"a bomb", strings.Repeat("[", 1000), false, "nested too deep"},
		{"a hill", strings.Repeat("- ", 1000), false, "nested too deep"},
		{"too large", strings.Repeat("#\n", graph.MaxFile), false, "more than a graph may have"},
		{"no text", "services: \x00", false, "control character"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := graph.ReadIsotope([]byte(test.text))
			if test.warning {
				if err != nil {
					t.Fatal(err)
				}
				if all := fmt.Sprint(got.Warnings); !strings.Contains(all, test.want) {
					t.Errorf("warnings %q, want %q", all, test.want)
				}
				return
			}
			if err == nil || errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v (code %d), want %q", err, errs.Code(err), test.want)
			}
		})
	}
}

// FuzzReadIsotope: whatever the text, it is a graph that passes its check or
// an error with a place; never a crash.
func FuzzReadIsotope(f *testing.F) {
	f.Add([]byte(isotopeFile))
	f.Add([]byte("services: [{name: a, script: [[{call: b}, {sleep: 1s}]]}, {name: b}]"))
	f.Add([]byte("services:\n- name: a\n  script:\n  - call: a\n"))
	f.Add([]byte("{services: [{name: a, errorRate: 1e-400%, responseSize: 1.5 kib}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := graph.ReadIsotope(data)
		if err != nil {
			if errs.Code(err) != errs.CodeUsage || err.Error() == "" {
				t.Fatalf("error %v with code %d", err, errs.Code(err))
			}
			return
		}
		if problems := got.Graph.Check(); len(problems) > 0 {
			t.Fatalf("%q", problems)
		}
		if all := got.Graph.Services; len(all) > 0 {
			if _, err := got.Graph.Flow(graph.Load{Entry: all[0].Name, RPS: 10}); err != nil {
				t.Fatal(err)
			}
		}
		got.Graph.Layout()
	})
}
