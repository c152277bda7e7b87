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
	"github.com/meshtrial/meshtrial/testing/must"
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
	must.OK(t, err)
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
}

func TestIsotopeProblems(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"a circle", "services:\n- name: a\n  script:\n  - call: b\n- name: b\n  script:\n  - call: a\n", "services.b.calls[0].to"},
		{"an unknown service", "services:\n- name: a\n  script:\n  - call: {service: zz}\n", "services.a.calls[0].to"},
		{"no name", "services:\n- type: http\n", "services[0].name"},
		{"a list in a list", "services:\n- name: a\n  script: [[[{sleep: 1s}]]]\n", "script[0]"},
		{"two commands in one", "services:\n- name: a\n  script: [{sleep: 1s, call: a}]\n", "script[0]"},
		{"an unknown command", "services:\n- name: a\n  script: [{dance: 1s}]\n", "script[0]"},
		{"a negative sleep", "services:\n- name: a\n  script: [{sleep: -1s}]\n", "sleep"},
		{"sleeps without end", "services:\n- name: a\n  script: [{sleep: 60s}, {sleep: 60s}]\n", "service_time"},
		{"no share", "services: [{name: a, errorRate: NaN}]\n", "errorRate"},
		{"no size", "services: [{name: a, responseSize: -5}]\n", "responseSize"},
		{"a size beyond sense", "services: [{name: a, responseSize: 5 PB}]\n", "responseSize"},
		{"an unknown type", "services: [{name: a, type: tcp}]\n", "type"},
		{"a probability above all", "services: [{name: a}, {name: b, script: [{call: {service: a, probability: 101}}]}]\n", "probability"},
		{"replicas beyond sense", "services: [{name: a, numReplicas: 100000}]\n", "replicas"},
		{"a script that is none", "services: [{name: a, script: x}]\n", "script"},
		{"no services", "defaults: {}\n", "services"},
		{"services that are none", "services: 5\n", "services"},
		{"nothing", "", "services"},
		{"no YAML", "services: [", "yaml"},
		{"too large", strings.Repeat("#\n", graph.MaxFile), "more than"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := graph.ReadIsotope([]byte(test.text)); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v (code %d), want %q", err, errs.Code(err), test.want)
			}
		})
	}
}

// FuzzReadIsotope checks that any text gives a graph that passes its check, or a usage
// error.
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
			must.OK(t, must.Err(got.Graph.Flow(graph.Load{Entry: all[0].Name, RPS: 10})))
		}
		got.Graph.Layout()
	})
}
