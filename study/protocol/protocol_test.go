package protocol_test

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/study/protocol"
)

// TestTable checks what readers of the table rely on: names, listeners, ports and schemes lead back
// to one entry.
func TestTable(t *testing.T) {
	for _, p := range protocol.All() {
		if got := protocol.Of(p.Name); got != p || p.Name == "" || p.Success == "" || !protocol.Succeeded(p.Success) {
			t.Errorf("%q is not told by its name: %+v", p.Name, got)
		}
		for _, tls := range []bool{false, true} {
			e := p.Endpoint(tls)
			if p.Streams && tls && e == (protocol.Endpoint{}) {
				continue
			}
			if e.TLS != tls || e.Listener == "" || e.Flag == "" || e.Doc == "" || e.PortName == "" || !slices.Contains(protocol.Counters(), e.Counter) {
				t.Errorf("%s, TLS %v: %+v", p.Name, tls, e)
			}
			by, endpoint, ok := protocol.OfScheme(e.Scheme)
			if !ok || endpoint.TLS != tls || endpoint.DefaultPort != e.DefaultPort || by.Name != p.Name && !(by.Methods && p.Web) {
				t.Errorf("%s, TLS %v: scheme %s means %s", p.Name, tls, e.Scheme, by.Name)
			}
		}
		if p.Headers == p.Echo {
			t.Errorf("%s: what has headers answers by itself, what has none echoes", p.Name)
		}
	}
	taken := map[any]string{}
	for _, e := range protocol.Endpoints() {
		for _, key := range []any{e.Listener, e.Port, "flag " + e.Flag, "port " + e.PortName} {
			if other := taken[key]; other != "" {
				t.Errorf("%v is that of %s and of %s", key, other, e.Listener)
			}
			taken[key] = e.Listener
		}
	}
	if protocol.Of("http3") != (protocol.Protocol{}) || protocol.Succeeded("503") {
		t.Error("what is not in the table is known")
	}
}

func TestList(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := protocol.List(names); got != want {
			t.Errorf("%v: %q, want %q", names, got, want)
		}
	}
}
