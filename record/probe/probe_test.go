package probe

import (
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

const dev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 9000000   90000    0    0    0     0          0         0 9000000   90000    0    0    0     0       0          0
  eth0:    1000      10    0    0    0     0          0         0     500       5    0    0    0     0       0          0
  eth1:1         1    0    0    0     0          0         0     2       3    0    0    0     0       0          0
`

func TestNetwork(t *testing.T) {
	got, err := network.Read(fstest.MapFS{"net/dev": {Data: []byte(dev)}})
	if err != nil || !maps.Equal(got, map[string]uint64{"network_bytes": 1503, "network_packets": 19}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "  lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0", "eth0: 1 2 3", strings.Replace(dev, " 500 ", " -5 ", 1)} {
		if got, err := parseDev(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
	if _, err := network.Read(fstest.MapFS{}); err == nil {
		t.Error("a process that is gone was read")
	}
}

// Each probe reads exactly its figures, here from a process of this machine.
func TestProbes(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range All {
		got, err := p.Read(os.DirFS("/proc/self"))
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		for _, f := range p.Figures {
			if _, ok := got[f.Name]; (err == nil && !ok) || seen[f.Name] || f.Doc == "" || f.Words == "" || f.Unit == "" {
				t.Errorf("%s: figure %+v, read %v", p.Name, f, got)
			}
			seen[f.Name] = true
			delete(got, f.Name)
		}
		if len(got) > 0 {
			t.Errorf("%s: %v has no figure", p.Name, got)
		}
		if found, ok := Of(p.Name); !ok || found.Name != p.Name {
			t.Errorf("%s is not found", p.Name)
		}
	}
	if _, ok := Of("none"); ok || len(Names()) != len(All) {
		t.Errorf("names %v", Names())
	}
}

func FuzzParseDev(f *testing.F) {
	f.Add(dev)
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parseDev(text) })
}
