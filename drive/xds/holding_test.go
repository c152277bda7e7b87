package xds_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/confile"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// The configuration of one proxy of each kind can be read as it was received.
func TestHoldings(t *testing.T) {
	s := newFake(t)
	spec := testSpec(s.address, 5)
	spec.Proxies[3].Namespace, spec.Proxies[4].Type = "other", xds.NodeRouter
	f := start(t, spec)
	synced(t, f)
	all := f.Holdings()
	if len(all) != 3 || all[0].Proxies != 3 || all[0].Namespace != "ns" || all[0].Type != xds.NodeSidecar {
		t.Fatalf("%+v", all)
	}
	config := f.Account().Config
	want := int64(0)
	for _, n := range config {
		want += n
	}
	var file bytes.Buffer
	must.OK(t, f.WriteConfiguration(&file, all[0].Proxy, confile.Header{Proxies: all[0].Proxies}))
	in, err := confile.NewReader(&file)
	must.OK(t, err)
	if in.Header.Proxy != all[0].Name || in.Header.Type != xds.NodeSidecar || in.Header.Proxies != 3 || in.Header.Lost != 0 {
		t.Errorf("%+v of %+v", in.Header, all[0])
	}
	got, types := int64(0), map[string]int{}
	for {
		r, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.OK(t, err)
		if r.Name == "" {
			t.Errorf("a resource of type %s without a name", r.TypeURL)
		}
		got += int64(len(r.Body))
		types[r.TypeURL]++
	}
	if got != want || got != all[0].Bytes || len(types) != 4 {
		t.Errorf("%d bytes of %v, want %d; %+v", got, types, want, all[0])
	}
	if err := f.WriteConfiguration(io.Discard, 5, confile.Header{}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a proxy that is not there: %v", err)
	}
	if err := f.WriteConfiguration(full{}, 0, confile.Header{}); err == nil {
		t.Error("nowhere to write to, and no error")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }
