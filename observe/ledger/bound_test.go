package ledger

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

// A book keeps as many entries as allowed, and counts the rest.
func TestMost(t *testing.T) {
	b := New(Options{Most: 5})
	for n := range 4 {
		id := fmt.Sprint("mm-", n)
		b.AddClient(ClientEntry{ID: id})
		b.AddProxy(ProxyEntry{ID: id})
		b.AddWorker(WorkerEntry{ID: id})
	}
	if c, p, w := b.Entries(); c != 2 || p != 2 || w != 1 || b.Over() != 7 {
		t.Errorf("%d, %d, %d entries, %d over", c, p, w, b.Over())
	}
	if len(b.names) != 2 {
		t.Errorf("what had no room left %q", b.names)
	}
	var file bytes.Buffer
	must.OK(t, b.Write(&file))
	if again, err := Read(bytes.NewReader(file.Bytes()), Options{Most: 5}); err != nil || again.Over() != 0 {
		t.Errorf("as many as there is room for: %v, %d over", err, again.Over())
	}
	if _, err := Read(&file, Options{Most: 4}); err == nil || !strings.Contains(err.Error(), "line 5: that is more") {
		t.Errorf("one more: %v", err)
	}
}

// An unlimited number of distinct texts does not exhaust memory either.
func TestMostText(t *testing.T) {
	for name, add := range map[string]func(*Book){
		"ids":     func(b *Book) { b.AddProxy(ProxyEntry{ID: "mm-other"}) },
		"hosts":   func(b *Book) { b.AddProxy(ProxyEntry{ID: "mm-1", Host: "other"}) },
		"details": func(b *Book) { b.AddProxy(ProxyEntry{ID: "mm-1", Details: "other"}) },
		"workers": func(b *Book) { b.AddWorker(WorkerEntry{ID: "mm-1", Ended: "other"}) },
	} {
		b := New(Options{})
		b.AddProxy(ProxyEntry{ID: "mm-1"})
		b.AddWorker(WorkerEntry{ID: "mm-1"})
		before := b.bytes
		add(b)
		if b.bytes == before || b.Over() != 0 {
			t.Errorf("%s: %d bytes, then %d", name, before, b.bytes)
		}
		b.bytes = maxText
		if add(b); b.Over() != 1 {
			t.Errorf("%s: %d over", name, b.Over())
		}
	}
}

// The result is the same whether clients' entries are added first or last.
func TestAddClients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint("mm-", rapid.IntRange(0, 8).Draw(t, "id")) })
		clients := rapid.SliceOf(rapid.Custom(func(t *rapid.T) ClientEntry {
			return ClientEntry{ID: id.Draw(t, "client"), IntendedNS: rapid.Int64Range(0, 9).Draw(t, "at"), Outcome: OutcomeOK, Status: 200}
		})).Draw(t, "clients")
		proxies, workers := rapid.SliceOf(id).Draw(t, "proxies"), rapid.SliceOf(id).Draw(t, "workers")
		options := Options{Client: "client", Entry: "a", Services: map[string]Station{"a": {}}, Gone: []Gone{{Address: "10.0.0.1"}}}
		rest := func(b *Book) {
			for n, id := range proxies {
				b.AddProxy(ProxyEntry{ID: id, StartNS: int64(n), Service: "a", Host: "10.0.0.1:80"})
			}
			for n, id := range workers {
				b.AddWorker(WorkerEntry{ID: id, StartNS: int64(n), Service: "a", Ended: EndAnswered})
			}
		}
		want, last := New(options), New(options)
		for _, c := range clients {
			want.AddClient(c)
		}
		rest(want)
		rest(last)
		last.Account() // an account of incomplete entries has no effect
		last.AddClients(clients)
		var wrote, wanted bytes.Buffer
		if last.Write(&wrote) != nil || want.Write(&wanted) != nil || wrote.String() != wanted.String() {
			t.Fatalf("%s\nwant\n%s", &wrote, &wanted)
		}
		if got, want := last.Account(), want.Account(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if !reflect.DeepEqual(last.ids, want.ids) {
			t.Fatalf("%v, want %v", last.ids, want.ids)
		}
	})
}
