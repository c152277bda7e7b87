package lab

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshtrial/meshtrial/testing/must"
)

func TestParseObjects(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		names string // "" for an error
	}{
		"one":               {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "a"},
		"several":           {"---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n# nothing\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: b}\n", "a b"},
		"a list":            {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n", "a b"},
		"JSON":              {`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}`, "a"},
		"null":              {"null\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "a"},
		"no kind":           {"apiVersion: v1\nmetadata: {name: a}\n", ""},
		"no YAML":           {"a: b: c\n", ""},
		"a string":          {"hello\n", ""},
		"broken in the 2nd": {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n\tx\n", ""},
	} {
		objects, err := ParseObjects([]byte(test.text))
		if test.names == "" {
			if err == nil || !strings.Contains(err.Error(), "document ") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var names []string
		for _, o := range objects {
			names = append(names, o.GetName())
		}
		if err != nil || strings.Join(names, " ") != test.names {
			t.Errorf("%s: %v, %v", name, names, err)
		}
	}
	if objects, err := ParseObjects(nil); err != nil || len(objects) > 0 {
		t.Errorf("nothing: %v, %v", objects, err)
	}
}

func FuzzParseObjects(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod}]\n---\n{}\n"))
	f.Add([]byte("---\n- a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, err := ParseObjects(data)
		if err != nil {
			return
		}
		for _, o := range objects {
			if o.GetKind() == "" {
				t.Errorf("an object without a kind: %v", o.Object)
			}
		}
	})
}

// shakes is net/http's error for a server that is too busy for a TLS handshake.
type shakes struct{}

func (shakes) Error() string   { return "net/http: TLS handshake timeout" }
func (shakes) Timeout() bool   { return true }
func (shakes) Temporary() bool { return true }

func TestTemporary(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	webhook := apierrors.NewInternalError(errors.New(`failed calling webhook "x": no endpoints available`))
	for _, err := range []error{
		&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "VirtualService"}}, apierrors.NewNotFound(pods, "namespace"),
		apierrors.NewServiceUnavailable("starting"), apierrors.NewTooManyRequests("later", 1), apierrors.NewConflict(pods, "a", errors.New("x")),
		syscall.ECONNREFUSED, syscall.ECONNRESET, webhook,
		errors.New("http2: client connection lost"), &url.Error{Op: "Get", Err: shakes{}}, apierrors.NewInternalError(errors.New("etcdserver: request timed out")),
	} {
		if !temporary(err) {
			t.Errorf("counts as final: %v", err)
		}
	}
	for _, err := range []error{
		apierrors.NewBadRequest("no"), apierrors.NewForbidden(pods, "a", errors.New("x")), apierrors.NewInternalError(errors.New("x")), errors.New("x"),
		&url.Error{Op: "Get", Err: context.DeadlineExceeded}, context.Canceled,
	} {
		if temporary(err) {
			t.Errorf("counts as temporary: %v", err)
		}
	}
}

func TestDeploymentDone(t *testing.T) {
	two := int32(2)
	for name, test := range map[string]struct {
		status appsv1.DeploymentStatus
		done   bool
	}{
		"all":               {appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, true},
		"not looked at yet": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, false},
		"old ones remain":   {appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 2, AvailableReplicas: 2}, false},
		"one unavailable":   {appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1}, false},
		"too many yet":      {appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, false},
		"nothing":           {appsv1.DeploymentStatus{}, false},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Spec: appsv1.DeploymentSpec{Replicas: &two}, Status: test.status}
		if done, state := deploymentDone(d); done != test.done {
			t.Errorf("%s: %t (%s)", name, done, state)
		}
	}
}

func TestDaemonSetDone(t *testing.T) {
	for name, test := range map[string]struct {
		status appsv1.DaemonSetStatus
		done   bool
	}{
		"all":               {appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2}, true},
		"not looked at yet": {appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2}, false},
		"old ones remain":   {appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 1, NumberReady: 2}, false},
		"one not ready":     {appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 1}, false},
		"no node yet":       {appsv1.DaemonSetStatus{ObservedGeneration: 3}, false},
	} {
		if done, state := daemonSetDone(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: test.status}); done != test.done {
			t.Errorf("%s: %t (%s)", name, done, state)
		}
	}
}

func TestWhyNotReady(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
	if got := WhyNotReady(pod); got != "Pending" {
		t.Errorf("got %q", got)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available"}}
	if got := WhyNotReady(pod); got != "0/1 nodes are available" {
		t.Errorf("got %q", got)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}},
		{Name: "proxy", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
	if got := WhyNotReady(pod); !strings.Contains(got, "proxy is waiting: ErrImagePull not found") {
		t.Errorf("got %q", got)
	}
}

// late rejects the first requests, as a port-forward does while nothing listens.
type late struct {
	refusals int
	err      error
	bodies   []string
}

func (l *late) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	l.bodies = append(l.bodies, string(body))
	if len(l.bodies) <= l.refusals {
		return nil, l.err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// A role's server may come up a moment after its container. A request that it
// never received is sent again in full, and no other request is.
func TestPatientRole(t *testing.T) {
	synctest.Test(t, patientRole) // independent of the machine's load
}

func patientRole(t *testing.T) {
	words := errors.New("error forwarding port 1 to pod x: dial tcp4 127.0.0.1:1: connect: connection refused")
	for name, tt := range map[string]struct {
		server late
		sent   int
		ok     bool
	}{
		"at once":            {late{}, 1, true},
		"a moment later":     {late{refusals: 3, err: words}, 4, true},
		"another error":      {late{refusals: 1, err: io.EOF}, 1, false},
		"never within limit": {late{refusals: 1 << 30, err: syscall.ECONNREFUSED}, 0, false},
	} {
		client := &http.Client{Transport: patient{next: &tt.server, wait: time.Millisecond, limit: 50 * time.Millisecond}}
		answer, err := client.Post("http://role/", "text/plain", strings.NewReader("asked"))
		if err == nil {
			answer.Body.Close()
		}
		n := len(tt.server.bodies)
		if (err == nil) != tt.ok || tt.sent > 0 && n != tt.sent || tt.sent == 0 && n < 2 || slices.ContainsFunc(tt.server.bodies, func(b string) bool { return b != "asked" }) {
			t.Errorf("%s: sent %d times %.5q, %v", name, n, tt.server.bodies, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://role/", http.NoBody)
	must.OK(t, err)
	server := late{refusals: 1, err: words}
	if _, err := (patient{next: &server, wait: time.Hour, limit: time.Hour}).RoundTrip(r); err == nil || len(server.bodies) != 1 {
		t.Errorf("given up: %v after %d", err, len(server.bodies))
	}
}
