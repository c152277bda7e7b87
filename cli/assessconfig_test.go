package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/testing/race"
)

// checkScopeSums checks that owners and types of the JSON that the last command printed add up
// to the total.
func checkScopeSums(ts *testscript.TestScript, neg bool, args []string) {
	var r scope.Report
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &r))
	owners, types := int64(0), int64(0)
	for _, o := range r.Owners {
		owners += o.DumpBytes
	}
	if r.OtherOwners != nil {
		owners += r.OtherOwners.DumpBytes
	}
	for _, x := range r.Types {
		types += x.DumpBytes
	}
	if r.DumpBytes == 0 || owners != r.DumpBytes || types != r.DumpBytes {
		ts.Fatalf("%d bytes, by owner %d, by type %d", r.DumpBytes, owners, types)
	}
}

// hugeDump makes a config dump of a wanted size on the fly: clusters of 20 kB,
// as many as it takes. It can end in the middle.
type hugeDump struct {
	want, made int64
	cut        bool
	next       []byte
	n          int
	last       bool
}

func (d *hugeDump) Read(b []byte) (int, error) {
	for len(d.next) == 0 {
		switch {
		case d.last:
			return 0, io.EOF
		case d.made == 0:
			d.next = []byte(`{"configs":[{"@type":"type.googleapis.com/envoy.admin.v3.ClustersConfigDump","dynamic_active_clusters":[{"cluster":{"name":"first"}}`)
		case d.made < d.want:
			d.next = fmt.Appendf(nil, `,{"version_info":"1","cluster":{"name":"outbound|80||svc-%d.ns-%d.svc.cluster.local","filler":"%s"}}`, d.n, d.n%50, hugeFiller)
			d.n++
		case d.cut:
			return 0, io.EOF
		default:
			d.next, d.last = []byte(`]}]}`), true
		}
		d.made += int64(len(d.next))
	}
	n := copy(b, d.next)
	d.next = d.next[n:]
	return n, nil
}

var hugeFiller = strings.Repeat("x", 20_000)

// maxScopeMemory bounds what the program takes for a dump of any size, bytes
// resident at its peak: the program itself, names, and one resource.
const maxScopeMemory = 200 << 20

// A dump of 500 MB takes no more memory than the program and the names in it,
// whether it is whole or ends in the middle.
func TestHugeDumpTakesLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 600 MB")
	}
	if race.Enabled {
		t.Skip("the race detector takes memory of its own")
	}
	for _, cut := range []bool{false, true} {
		dump := &hugeDump{want: 500 << 20, cut: cut}
		if cut {
			dump.want = 100 << 20
		}
		cmd := exec.Command("meshtrial", "assess", "config", "--from", "-", "--json", "--top", "3")
		var stdout, stderr bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = dump, &stdout, &stderr
		err := cmd.Run()
		usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			t.Fatalf("%T", cmd.ProcessState.SysUsage())
		}
		peak := usage.Maxrss << 10 // getrusage(2): kilobytes
		t.Logf("cut: %v; %d clusters, %d MB: %d MB resident at most, %.1f s of CPU", cut, dump.n, dump.made>>20, peak>>20,
			(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
		if peak > maxScopeMemory {
			t.Errorf("%d MB resident, the bound is %d MB", peak>>20, maxScopeMemory>>20)
		}
		if cut {
			if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(stderr.String(), "cut short") || stdout.Len() > 0 {
				t.Errorf("%v: %s", err, stderr.String())
			}
			continue
		}
		var r scope.Report
		if err != nil || json.Unmarshal(stdout.Bytes(), &r) != nil || r.DumpBytes != dump.made {
			t.Errorf("%v: %s; %d of %d bytes", err, stderr.String(), r.DumpBytes, dump.made)
		}
	}
}
