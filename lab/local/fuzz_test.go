package local

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/scriptconn"
)

// FuzzRecord checks that an accepted lab.json names a lab of this folder and is
// unchanged when written again, and that the error about a rejected one names
// the file.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"schema": 1, "id": "abc123", "phase": "ready", "boot_id": "b", "started": "2026-11-21T12:00:00Z", "init_pid": 7,
		"network": {"pods": "10.1.0.0/16"}, "sysctls": {"fs/inotify/max_user_instances": 128}, "images": {"proxies": {"1.40.0": "x"}}}`))
	f.Add([]byte(`{"id": "../../x"}`))
	f.Add([]byte(`{"id": "ABC123", "init_pid": -1}`))
	f.Add([]byte(`{`))
	p := paths{f.TempDir()}
	f.Fuzz(func(t *testing.T, text []byte) {
		must.OK(t, os.WriteFile(p.record(), text, 0o600))
		r, err := p.readRecord()
		if err != nil {
			if !strings.Contains(err.Error(), p.record()) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if dir := string(p.dir(r.ID)); filepath.Dir(dir) != p.base || len(hostInterface(r.ID)) > 15 {
			t.Errorf("%q: its folder is %s, its interface %s", text, dir, hostInterface(r.ID))
		}
		_ = r.initAlive()
		if err := p.writeRecord(r); err != nil {
			t.Fatalf("%q cannot be written again: %v", text, err)
		}
		again, err := p.readRecord()
		if err != nil {
			t.Fatalf("%q cannot be read again: %v", text, err)
		}
		one, _ := json.Marshal(r)
		if other, _ := json.Marshal(again); !bytes.Equal(one, other) {
			t.Errorf("%s became %s", one, other)
		}
	})
}

// FuzzSysctls checks that, whatever a record and the file of pending values
// contain, only the setting that labs raise is written.
func FuzzSysctls(f *testing.F) {
	f.Add("fs/inotify/max_user_instances", 128, []byte(`{"fs/inotify/max_user_instances": 64}`), false)
	f.Add("../other", 1, []byte(`{"../../other": 2, "fs/inotify/other": 3}`), false)
	f.Add("fs/inotify/max_user_instances", 128, []byte(`{`), true)
	f.Add("fs/inotify/max_user_instances", 128, []byte(`null`), true)
	base := f.TempDir()
	s := sysctls{filepath.Join(base, "proc", "sys")}
	pending := filepath.Join(base, "sysctls.json")
	must.OK(f, os.MkdirAll(filepath.Join(s.root, filepath.Dir(inotifyInstances)), 0o700))
	others := []string{filepath.Join(base, "other"), filepath.Join(base, "proc", "other"), filepath.Join(s.root, "fs/inotify/other")}
	f.Fuzz(func(t *testing.T, name string, value int, text []byte, othersRun bool) {
		for _, path := range others {
			must.OK(t, os.WriteFile(path, []byte("7"), 0o600))
		}
		must.OK(t, s.set(map[string]int{inotifyInstances: needInotify}))
		must.OK(t, os.WriteFile(pending, text, 0o600))
		before := files(t, base)
		err := s.restore(map[string]int{name: value}, pending, othersRun)
		if err != nil && !strings.Contains(err.Error(), pending) {
			t.Errorf("%q, %q: %v", name, text, err)
		}
		for _, path := range others {
			if got, err := os.ReadFile(path); err != nil || string(got) != "7" {
				t.Errorf("%q, %q: %s holds %q, %v", name, text, path, got, err)
			}
		}
		for path := range files(t, base) {
			if !before[path] && path != pending {
				t.Errorf("%q, %q: it made %s", name, text, path)
			}
		}
	})
}

func files(t *testing.T, dir string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error { out[path] = true; return err })
	must.OK(t, err)
	return out
}

// FuzzEgress checks that, whatever a client requests, the proxy connects to the
// requested target or requests the same from another proxy in one request,
// forwards what follows, and answers with one complete response.
func FuzzEgress(f *testing.F) {
	for _, say := range []string{
		"CONNECT registry.example:443 HTTP/1.1\r\nHost: registry.example:443\r\n\r\nhello",
		"CONNECT none.example:443 HTTP/1.1\r\nHost: none.example:443\r\n\r\n",
		"CONNECT [::1]:443 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"CONNECT none%0d%0aX: HTTP/1.1\r\n\r\n",
		"CONNECT /path HTTP/1.1\r\nHost: a b\r\n\r\n",
		"GET http://registry.example/v2/ HTTP/1.1\r\nHost: registry.example\r\nProxy-Connection: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: none.example\r\n\r\n",
		"POST http://none.example/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
	} {
		f.Add([]byte(say), uint8(0), false)
		f.Add([]byte(say), uint8(1), true)
	}
	listener, world := scriptconn.Listen(), &world{}
	direct := &egress{dial: world.dial, upstream: noProxy}
	go direct.serve(listener) // ends with the listener
	f.Cleanup(func() { listener.Close() })
	chainedAt := scriptconn.Listen()
	chained := &egress{dial: world.dial, upstream: func(u *url.URL) (*url.URL, error) {
		return &url.URL{Scheme: "http", Host: "proxy.example:3128"}, nil
	}}
	go chained.serve(chainedAt)
	f.Cleanup(func() { chainedAt.Close() })
	f.Fuzz(func(t *testing.T, say []byte, pieces uint8, through bool) {
		if len(say) > 32<<10 {
			return
		}
		world.reset(through)
		c := scriptconn.New(say, int(pieces), 64<<10+4*len(say))
		if through {
			chainedAt.Come(c)
		} else {
			listener.Come(c)
		}
		<-c.Closed()
		checkEgress(t, world, say, c, through)
	})
}

// world is what a fuzzed egress connects to: any host except those that begin
// with "none".
type world struct {
	mu      sync.Mutex
	proxy   bool
	dialled []string
	conns   []*scriptconn.Conn
}

func (w *world) reset(proxy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.proxy, w.dialled, w.conns = proxy, nil, nil
}

func (w *world) dial(_ context.Context, _, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dialled = append(w.dialled, address)
	if strings.HasPrefix(address, "none") {
		return nil, errors.New("no such host: " + address)
	}
	say := ""
	if w.proxy {
		say = "HTTP/1.1 200 OK\r\n\r\n"
	}
	c := scriptconn.New([]byte(say), 0, 64<<10)
	w.conns = append(w.conns, c)
	return c, nil
}

func checkEgress(t *testing.T, w *world, say []byte, c *scriptconn.Conn, through bool) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, address := range w.dialled {
		if strings.ContainsFunc(address, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			t.Errorf("%q: it connects to %q", say, address)
		}
	}
	heard, _ := c.Heard()
	if len(heard) > 0 {
		answers := bufio.NewReader(bytes.NewReader(heard))
		for first := true; ; first = false {
			if _, err := answers.Peek(1); err != nil {
				break
			}
			r, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatalf("%q is answered with %q: %v", say, heard, err)
			}
			if first && r.StatusCode == http.StatusBadGateway && strings.HasPrefix(string(say), "CONNECT ") {
				if rest, _ := io.ReadAll(answers); len(rest) > 0 {
					t.Errorf("%q: after %s there is %q", say, r.Status, rest)
				}
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				break // the connection may end in the middle
			}
		}
	}
	asks := bufio.NewReader(bytes.NewReader(say))
	asked, err := http.ReadRequest(asks)
	if err != nil || asked.Method != http.MethodConnect || len(w.conns) != 1 {
		return
	}
	rest, _ := io.ReadAll(asks)
	passed, _ := w.conns[0].Heard()
	if !through {
		if len(w.dialled) != 1 || w.dialled[0] != asked.Host {
			t.Errorf("%q: asked for %q, it connects to %q", say, asked.Host, w.dialled)
		}
	} else {
		ask := bufio.NewReader(bytes.NewReader(passed))
		r, err := http.ReadRequest(ask)
		if err != nil || r.Method != http.MethodConnect || r.Host != asked.Host {
			t.Fatalf("%q: asked for %q, it asks the other proxy %q: %v", say, asked.Host, passed, err)
		}
		passed, _ = io.ReadAll(ask)
	}
	if !bytes.HasPrefix(rest, passed) {
		t.Errorf("%q: it passes on %q, of %q", say, passed, rest)
	}
}

// FuzzCgroups checks that a hierarchy is found where it is mounted, whatever its
// folder is called and whatever else the file contains.
func FuzzCgroups(f *testing.F) {
	f.Add("/sys/fs/cgroup", mountsV1)
	f.Add("/a b\\040\t\n#\r", mountsTogether)
	f.Add("/\u00a0 - \u0085", "1 2 3 / /x\\04 rw - cgroup a rw,cpu,cpuacct\n - cgroup2\n")
	f.Fuzz(func(t *testing.T, mount, others string) {
		if !strings.HasPrefix(mount, "/") || strings.ContainsRune(mount, 0) {
			return
		}
		// mangle in the kernel's fs/proc_namespace.c escapes these.
		escaped := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`, "#", `\043`).Replace(mount)
		groups, err := findCgroups(strings.NewReader("30 23 0:26 / " + escaped + " rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n" + others))
		if err != nil {
			return // the line is too long
		}
		if len(groups) == 0 || groups[0].mount != mount || !groups[0].v2 {
			t.Fatalf("mounted at %q, found %+v", mount, groups)
		}
		if !groups.unified() && !slices.ContainsFunc(groups, func(h hierarchy) bool { return !h.v2 }) {
			t.Errorf("%+v are neither unified nor separate", groups)
		}
	})
}
