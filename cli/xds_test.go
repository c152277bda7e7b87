package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/loopback"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/xdsserver"
)

// served serves generated configuration until the test ends.
func served(t *testing.T, services, endpoints int) (address string) {
	t.Helper()
	c, err := xdsserver.Synthetic(services, endpoints)
	must.OK(t, err)
	s := xdsserver.New(c)
	return loopback.Serve(t, s.Serve, s.Close)
}

// With --duration the command ends, whatever the proxies and istiod do.
func TestXDSDurationEnds(t *testing.T) {
	address := served(t, 5, 1)
	mute := loopback.Listen(t) // accepts connections and stays silent
	for _, test := range []struct {
		name string
		args []string
		ever int
		err  string
	}{
		{"all is well", []string{"--address", address, "--proxies", "3"}, 3, ""},
		{"a reconnect storm", []string{"--address", address, "--proxies", "3", "--behaviour", "reconnect-storm"}, 3, ""},
		{"nobody there", []string{"--address", "127.0.0.1:1", "--proxies", "3", "--patience", "3s"}, 0, "3 of 3 proxies never synced; the last error: "},
		{"nobody answers", []string{"--address", mute.Addr().String(), "--proxies", "3", "--patience", "300ms"}, 0, "3 of 3 proxies never synced"},
		{"half of them", []string{"--address", address, "--address", mute.Addr().String(), "--proxies", "4", "--patience", "30s", "--streams-per-connection", "1"}, 2,
			"2 of 4 proxies never synced"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			stdout, stderr, err := runIn(ctx, append([]string{"xds", "--duration", "200ms", "--json"}, test.args...)...)
			if ctx.Err() != nil {
				t.Fatalf("it did not end: %s", stderr)
			}
			var report app.FleetReport
			if e := json.Unmarshal([]byte(stdout), &report); e != nil {
				t.Fatalf("%v: %s%s", e, stdout, stderr)
			}
			if report.Status.EverSynced != test.ever || report.Account.LagSource == "" || (report.SyncedAfterS > 0) != (test.err == "") {
				t.Errorf("%+v", report)
			}
			if (err == nil) != (test.err == "") || err != nil && (!strings.Contains(err.Error(), test.err) || errs.Code(err) == 0) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
}

// Proxies that have lost their server at the end are a failure. A busy machine may be too slow
// for the first try.
func TestXDSWithoutServerAtTheEnd(t *testing.T) {
	var out string
	var err error
	for _, after := range []time.Duration{time.Second, 5 * time.Second, 20 * time.Second} {
		out, err = serverEnds(t, after)
		if err != nil && strings.Contains(err.Error(), "3 of 3 proxies had lost their connection at the end; the last error: ") && errs.Code(err) == errs.CodeFailure {
			return
		}
		t.Logf("after %v: %v", after, err)
	}
	t.Errorf("%v: %s", err, out)
}

// serverEnds runs proxies whose server ends after a while, before they do.
func serverEnds(t *testing.T, after time.Duration) (string, error) {
	t.Helper()
	c, err := xdsserver.Synthetic(5, 1)
	must.OK(t, err)
	s := xdsserver.New(c)
	address := loopback.Serve(t, s.Serve, s.Close)
	stop := time.AfterFunc(after, s.Close)
	defer stop.Stop()
	out, _, err := runIn(t.Context(), "xds", "--address", address, "--proxies", "3", "--duration", (after * 5 / 2).String(), "--json")
	return out, err
}

// What one server sends is recorded, weighed, served again and recorded again.
func TestRecordServeScope(t *testing.T) {
	address := served(t, 20, 2)
	dir := t.TempDir()
	first := filepath.Join(dir, "first.xds.gz")
	if _, stderr := succeeds(t, "xds", "record", "--address", address, "--out", first); !strings.Contains(stderr, "sidecar meshtrial-0.default") {
		t.Errorf("it says %q", stderr)
	}
	// Serve it to another proxy.
	c := configurationIn(t, first)
	replay := xdsserver.New(c)
	again := loopback.Serve(t, replay.Serve, replay.Close)
	second := filepath.Join(dir, "second.xds.gz")
	succeeds(t, "xds", "record", "--address", again, "--out", second, "--mode", "sotw")
	if n := replay.Counts(); n.Streams != 1 || n.Responses != 4 {
		t.Errorf("%d streams, %d responses; want 1 and 4", n.Streams, n.Responses)
	}
	var reports [2]scope.Report
	for i, file := range []string{first, second} {
		stdout, _ := succeeds(t, "assess", "config", "--from", file, "--json")
		must.OK(t, json.Unmarshal([]byte(stdout), &reports[i]))
	}
	if a, b := reports[0], reports[1]; a.WireBytes == 0 || a.WireBytes != b.WireBytes || a.DumpBytes != b.DumpBytes {
		t.Errorf("%d bytes, then %d; as JSON %d, then %d", a.WireBytes, b.WireBytes, a.DumpBytes, b.DumpBytes)
	}
	services := 0
	for _, o := range reports[0].Owners {
		if o.Owner.Kind == "Service" && o.WireBytes > 1000 {
			services++
		}
	}
	if services < 15 { // of the 20 listed owners
		t.Errorf("%d Services own something: %+v", services, reports[0].Owners)
	}
	stdout, _, err := runIn(t.Context(), "assess", "config", "--from", first, "--width", "120")
	if err != nil || !strings.Contains(stdout, "wire, kB") || !strings.Contains(stdout, "simulated sidecar") {
		t.Errorf("%v: %s", err, stdout)
	}
	// A run stores such files next to dumps.
	configs := filepath.Join(dir, "run", "configs")
	must.OK(t, os.MkdirAll(configs, 0o755))
	must.OK(t, os.Rename(first, filepath.Join(configs, "b000-t00-sidecar-test-1.xds.gz")))
	if stdout, _, err := runIn(t.Context(), "assess", "config", filepath.Join(dir, "run")); err != nil || !strings.Contains(stdout, "b000-t00-sidecar-test-1 ") {
		t.Errorf("%v: %s", err, stdout)
	}
}

// configurationIn reads what xds record wrote.
func configurationIn(t *testing.T, path string) xdsserver.Configuration {
	t.Helper()
	var c xdsserver.Configuration
	err := withFile(t.Context(), nil, path, func(r io.Reader) (err error) {
		c, err = xdsserver.Read(r)
		return err
	})
	must.OK(t, err)
	return c
}

func TestRecordRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"record", "--out", "x"},
		{"record", "--address", "127.0.0.1:1"},
		{"record", "--address", "127.0.0.1:1", "--out", "x", "--proxies", "2"},
	} {
		_, _, err := runIn(t.Context(), append([]string{"xds"}, args...)...)
		if errs.Code(err) != errs.CodeUsage {
			t.Errorf("%v: %v", args, err)
		}
	}
	// No server answers: the command says so when it is interrupted.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := runIn(ctx, "xds", "record", "--address", "127.0.0.1:1", "--out", filepath.Join(t.TempDir(), "x")); err == nil {
		t.Error("nothing was there, and it was recorded")
	}
	// A truncated file.
	file := filepath.Join(t.TempDir(), "cut.xds")
	must.OK(t, os.WriteFile(file, []byte(`{"meshtrial_configuration":1,"proxy":"a.b","type":"sidecar"}`+"\n{"), 0o644))
	if _, _, err := runIn(t.Context(), "assess", "config", "--from", file); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "cut short") {
		t.Error(err)
	}
}
