package cli

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/lab/journal"
)

// Nobody waits for the end of a run where none is active.
func TestStatusSaysWhatToDo(t *testing.T) {
	left := app.ClusterStatus{Changes: []app.ClusterChange{{Object: "Deployment a/b", Run: "one"}}}
	held := left
	held.Holder = &journal.Holder{Run: "one"}
	for want, s := range map[string]app.ClusterStatus{
		"\nto revert and remove this: meshtrial cluster restore\n": left,
		"\nonce that run is over: meshtrial cluster restore\n":     held,
		"no run is active\n": {},
		"\nnamespaces of runs are not shown: this user may not list namespaces\n": {NamespacesHidden: true},
	} {
		if got := statusText(s); !strings.HasSuffix(got, want) {
			t.Errorf("%q, want the end %q", got, want)
		}
	}
}
