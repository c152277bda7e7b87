package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// Who may not list namespaces has what the journal lists reverted all the same.
func TestNamespacesForbidden(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}`)
	}))
	t.Cleanup(server.Close)
	p := &recorder{}
	names, err := removeNamespaces(t.Context(), p, &rest.Config{Host: server.URL}, "")
	if err != nil || len(names) > 0 || !strings.Contains(p.notes.String(), "may not list namespaces") {
		t.Errorf("%v, %v, %q", names, err, p.notes.String())
	}
}
