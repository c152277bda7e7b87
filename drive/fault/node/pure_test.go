package node

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

// A line releases packets in order of arrival, none earlier than its delay, and never exceeds its
// rate.
func TestLink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := link{delay: time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "delay")), rate: rapid.SampledFrom([]int64{0, MinRateBits, 1e6, 1e9}).Draw(t, "rate")}
		at, before, sent, first := int64(1e9), int64(0), int64(0), int64(0)
		for i := range 100 {
			at += rapid.Int64Range(0, 1e7).Draw(t, "gap")
			bytes := rapid.IntRange(1, 65535).Draw(t, "bytes")
			due, ok := l.cross(at, bytes)
			if !ok {
				if l.rate == 0 || l.free-at <= int64(maxBacklog) {
					t.Fatalf("packet %d is dropped, with a backlog of %v", i, time.Duration(l.free-at))
				}
				continue
			}
			if due < before || due < at+int64(l.delay) || l.rate == 0 && due != at+int64(l.delay) {
				t.Fatalf("packet %d at %d is due at %d, the one before at %d", i, at, due, before)
			}
			if first == 0 {
				first = at
			}
			sent += int64(bytes) * 8
			if l.rate > 0 && float64(due-int64(l.delay)-first+1)*float64(l.rate)/1e9 < float64(sent)*0.999 {
				t.Fatalf("%d bits crossed in %v", sent, time.Duration(due-int64(l.delay)-first))
			}
			before = due
		}
	})
}

func TestMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mark{
			Owner:   Process{PID: rapid.IntRange(1, 1<<22).Draw(t, "pid"), StartTicks: rapid.Uint64().Draw(t, "start")},
			Fault:   rapid.Uint64().Draw(t, "fault"),
			Stopped: Process{PID: rapid.IntRange(0, 1<<22).Draw(t, "stopped")},
		}
		if m.Stopped.PID > 0 {
			m.Stopped.StartTicks = rapid.Uint64().Draw(t, "stopped start")
		}
		if got, ok := parseMark(m.String()); !ok || got != m {
			t.Fatalf("%s is read as %+v, %v", m, got, ok)
		}
	})
	for _, name := range []string{"", "meshtrial", "meshtrial-", "meshtrial-1-2", "meshtrial-0-2-3", "meshtrial-1-2-3-stop-4", "meshtrial-1-2-3-stop-0-0",
		"meshtrial-01-2-3", "meshtrial-1-2-3 ", "ameshtrial-1-2-3", "meshtrial-1-99999999999999999999-3", "istio-1-2-3"} {
		if m, ok := parseMark(name); ok {
			t.Errorf("%q is read as %+v", name, m)
		}
	}
}

func FuzzParseMark(f *testing.F) {
	f.Add("meshtrial-1-2-3")
	f.Add("meshtrial-1-2-3-stop-4-5")
	f.Fuzz(func(t *testing.T, name string) {
		if m, ok := parseMark(name); ok && (m.String() != name || m.Owner.PID <= 0) {
			t.Errorf("%q is read as %+v", name, m)
		}
	})
}

// packetMessage returns the kernel's message about a packet.
func packetMessage(id uint32, payload, length int) []byte {
	attribute := func(out []byte, kind uint16, data []byte) []byte {
		out = binary.NativeEndian.AppendUint16(out, uint16(4+len(data)))
		out = append(binary.NativeEndian.AppendUint16(out, kind), data...)
		for len(out)%4 != 0 {
			out = append(out, 0)
		}
		return out
	}
	out := []byte{2, 0, 0, 1}
	out = attribute(out, packetHeader, append(binary.BigEndian.AppendUint32(nil, id), 8, 0, 0))
	if length > 0 {
		out = attribute(out, packetLength, binary.BigEndian.AppendUint32(nil, uint32(length)))
	}
	return attribute(out, packetPayload, make([]byte, payload))
}

func TestParsePacket(t *testing.T) {
	for _, c := range []struct{ payload, length, want int }{{20, 1500, 1500}, {20, 0, 20}, {0, 60, 60}} {
		if id, bytes, err := parsePacket(packetMessage(7, c.payload, c.length)); err != nil || id != 7 || bytes != c.want {
			t.Errorf("%+v: packet %d of %d bytes, %v", c, id, bytes, err)
		}
	}
	for _, data := range [][]byte{nil, {1, 2, 3}, {2, 0, 0, 1}, {2, 0, 0, 1, 255, 255, 1, 0}} {
		if _, _, err := parsePacket(data); err == nil {
			t.Errorf("% x is a packet", data)
		}
	}
}

func FuzzParsePacket(f *testing.F) {
	f.Add(packetMessage(1, 20, 1500))
	f.Add([]byte{2, 0, 0, 1, 4, 0, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, bytes, err := parsePacket(data); err == nil && bytes < 0 {
			t.Errorf("a packet of %d bytes", bytes)
		}
	})
}

func TestRequestsThatAreRefused(t *testing.T) {
	good := NetworkRequest{PodUID: "0b5c6a5e-1d2f-4a3b", Peers: []string{"10.0.0.1"}, Direction: In, Cut: true, LeaseMS: 1000}
	must.OK(t, must.Err(good.validate()))
	for name, change := range map[string]func(*NetworkRequest){
		"nothing":             func(r *NetworkRequest) { r.Cut = false },
		"two things":          func(r *NetworkRequest) { r.Lose = 0.1 },
		"cut and slow":        func(r *NetworkRequest) { r.RateBits = 1e6 },
		"lose all":            func(r *NetworkRequest) { r.Cut, r.Lose = false, 1 },
		"lose less than none": func(r *NetworkRequest) { r.Cut, r.Lose = false, -0.1 },
		"negative delay":      func(r *NetworkRequest) { r.Cut, r.DelayNS = false, -1 },
		"endless delay":       func(r *NetworkRequest) { r.Cut, r.DelayNS = false, 1<<60 },
		"a rate of nearly 0":  func(r *NetworkRequest) { r.Cut, r.RateBits = false, 1 },
		"no direction":        func(r *NetworkRequest) { r.Direction = "" },
		"no peers":            func(r *NetworkRequest) { r.Peers = nil },
		"a name":              func(r *NetworkRequest) { r.Peers = []string{"pod-1"} },
		"loopback":            func(r *NetworkRequest) { r.Peers = []string{"127.0.0.1"} },
		"mapped loopback":     func(r *NetworkRequest) { r.Peers = []string{"::ffff:127.0.0.1"} },
		"everybody":           func(r *NetworkRequest) { r.Peers = []string{"0.0.0.0"} },
		"no lease":            func(r *NetworkRequest) { r.LeaseMS = 0 },
		"a lease for ever":    func(r *NetworkRequest) { r.LeaseMS = MaxLeaseMS + 1 },
	} {
		r := good
		change(&r)
		if _, err := r.validate(); err == nil {
			t.Errorf("%s: %+v is taken", name, r)
		}
	}
	for name, r := range map[string]SignalRequest{
		"no signal":       {Kind: KindEnvoy},
		"another signal":  {Kind: KindEnvoy, Signal: "hup"},
		"no kind":         {Signal: SignalKill},
		"any process":     {Kind: KindOther, Signal: SignalKill},
		"stop for ever":   {Kind: KindEnvoy, Signal: SignalStop},
		"kill on a lease": {Kind: KindEnvoy, Signal: SignalKill, LeaseMS: 5},
		"oom on a lease":  {Kind: KindEnvoy, Signal: SignalOOM, LeaseMS: 5},
		"a whole pod":     {Kind: KindEnvoy, Signal: SignalKill},
	} {
		if r.ID = "c"; name == "a whole pod" {
			r.ID = ""
		}
		if err := r.validate(); err == nil {
			t.Errorf("%s: %+v is taken", name, r)
		}
	}
}

// A node's proxy is a separate kind, which steps can kill and pause.
func TestNodeProxyIsAKind(t *testing.T) {
	if got := (processes{root: t.TempDir()}).kind(1, "ztunnel"); got != KindNode {
		t.Errorf("ztunnel is %q", got)
	}
	for _, r := range []SignalRequest{{Kind: KindNode, Signal: SignalKill}, {Kind: KindNode, Signal: SignalOOM}, {Kind: KindNode, Signal: SignalStop, LeaseMS: 5}} {
		r.ID = "c"
		if err := r.validate(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// A container's memory is limited in the memory hierarchy of either version. Next to version 1
// there may be a version 2 hierarchy that limits nothing.
func TestMemoryGroup(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct {
		files []string // below the cgroups' root; NAME=TEXT
		want  string   // the group; "" for none
		v2    bool
		limit string
	}{
		"version 2": {[]string{"cgroup.controllers=cpu memory pids\n", "kubepods.slice/cri-containerd-" + id + ".scope/memory.max=max\n"},
			"kubepods.slice/cri-containerd-" + id + ".scope", true, "memory.max"},
		"version 1": {[]string{"memory/memory.limit_in_bytes=1\n", "memory/kubepods/podx/" + id + "/memory.limit_in_bytes=1\n", "unified/" + id + "/cgroup.procs="},
			"memory/kubepods/podx/" + id, false, "memory.limit_in_bytes"},
		"version 2 without the controller": {[]string{"cgroup.controllers=cpu pids\n", id + "/cgroup.procs="}, "", false, ""},
		"another container":                {[]string{"memory/memory.limit_in_bytes=1\n", "memory/kubepods/x/memory.limit_in_bytes=1\n"}, "", false, ""},
	} {
		root := t.TempDir()
		for _, file := range c.files {
			path, text, _ := strings.Cut(file, "=")
			path = filepath.Join(root, path)
			must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
		}
		g, err := findMemoryGroup(root, Container{PodUID: "x", ID: "containerd://" + id})
		if c.want == "" {
			if err == nil {
				t.Errorf("%s: %+v", name, g)
			}
			continue
		}
		if want := filepath.Join(root, c.want); err != nil || g.dir != want || g.v2 != c.v2 || g.path(memoryLimit) != filepath.Join(want, c.limit) {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
}

// The kernel's count is the number of its kills. If there is no count, that is an error.
func TestKillsOfGroup(t *testing.T) {
	g := memoryGroup{t.TempDir(), false}
	for text, want := range map[string]int64{"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n": 3, "oom_kill_disable 0\nunder_oom 0\n": -1} {
		must.OK(t, os.WriteFile(g.path(memoryKills), []byte(text), 0o600))
		if got, err := g.kills(); (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	g.v2 = true
	must.OK(t, os.WriteFile(g.path(memoryKills), []byte("low 0\nhigh 0\nmax 4\noom 2\noom_kill 1\noom_group_kill 0\n"), 0o600))
	if got, err := g.kills(); err != nil || got != 1 {
		t.Errorf("%d, %v", got, err)
	}
	must.OK(t, os.Remove(g.path(memoryKills)))
	if _, err := g.kills(); !vanished(err) {
		t.Errorf("a group that is gone: %v", err)
	}
}
