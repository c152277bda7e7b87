package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/testing/must"
)

// withoutNamespaces is an empty cluster whose user may not list namespaces.
func withoutNamespaces(t *testing.T) *rest.Config {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, reason := http.StatusNotFound, "NotFound"
		if r.URL.Path == "/api/v1/namespaces" {
			code, reason = http.StatusForbidden, "Forbidden"
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d}`, reason, code)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// A user who may not list namespaces can still revert what the journal lists.
func TestNamespacesForbidden(t *testing.T) {
	p := &recorder{}
	names, err := removeNamespaces(t.Context(), p, withoutNamespaces(t), "")
	if err != nil || len(names) > 0 || !strings.Contains(p.notes.String(), "may not list namespaces") {
		t.Errorf("%v, %v, %q", names, err, p.notes.String())
	}
}

// The status says that it lacks the namespaces, which an empty list would deny.
func TestStatusWithoutNamespaces(t *testing.T) {
	s, err := ReadClusterStatus(t.Context(), withoutNamespaces(t))
	must.OK(t, err)
	if !s.NamespacesHidden || len(s.Namespaces)+len(s.Changes) > 0 || s.Holder != nil {
		t.Errorf("%+v", s)
	}
}
