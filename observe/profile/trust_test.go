package profile

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

// stripped is what perf may print for a binary that only exports functions: it
// names everything after the preceding export.
const stripped = `wrk:worker_0 1/2 1.0: 10 cpu-clock:
	 7f01 memcpy+0x20 (/lib/libc.so.6)
	 55a1 AbslInternalYield+0x91f3a1 (/usr/local/bin/envoy)
	 55a2 AbslInternalYield+0x91f3a2 (/usr/local/bin/envoy)
	 55a3 envoy_dynamic_module_on_program_init+0x21 (/usr/local/bin/envoy)
	 55a4 main+0x10 (/usr/local/bin/envoy)

wrk:worker_0 1/2 1.1: 10 cpu-clock:
	 ffffffff81000000 tcp_sendmsg+0x7 ([kernel.kallsyms])
	 55a4 EnvoyGoHello+0x400000 (/usr/local/bin/envoy)

`

func TestDistrust(t *testing.T) {
	envoy := "/usr/local/bin/envoy"
	for _, tt := range []struct {
		name string
		at   map[string]ELF
		id   string // in the profile
		want string
		user float64
		why  string
	}{
		{name: "without the file: far into a function means a guess",
			want: "wrk:worker_0;[envoy];memcpy 1\nwrk:worker_0;[envoy];tcp_sendmsg_[k] 1\n", user: 1, why: DoubtGuessed},
		{name: "with the file: what lies inside an exported function stays",
			at: map[string]ELF{envoy: {Type: TypeExports, Exports: map[string]uint64{
				"AbslInternalYield": 0x30, "envoy_dynamic_module_on_program_init": 0x30, "main": 8}}},
			want: "wrk:worker_0;[envoy];envoy_dynamic_module_on_program_init;[envoy];memcpy 1\nwrk:worker_0;[envoy];tcp_sendmsg_[k] 1\n", user: 1, why: DoubtGuessed},
		{name: "a file with all symbols is believed, however far",
			at:   map[string]ELF{envoy: {Type: TypeFull}},
			want: "wrk:worker_0;EnvoyGoHello;tcp_sendmsg_[k] 1\nwrk:worker_0;main;envoy_dynamic_module_on_program_init;AbslInternalYield;AbslInternalYield;memcpy 1\n", user: 1},
		{name: "another file than ran",
			at: map[string]ELF{envoy: {Type: TypeFull, BuildID: "aaaaaaaaaaaaaaaa"}}, id: "bbbbbbbbbbbbbbbb",
			want: "wrk:worker_0;[envoy];memcpy 1\nwrk:worker_0;[envoy];tcp_sendmsg_[k] 1\n", user: 1, why: DoubtBuild},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := script(t, stripped)
			if tt.id != "" {
				p.SetBuildIDs(map[string]string{envoy: tt.id})
			}
			trust := p.Distrust(tt.at)
			if got := text(t, p); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
			if trust.User != tt.user {
				t.Errorf("%+v", trust)
			}
			if b := p.Binary(envoy); b.Doubt != tt.why || (b.Why == "") != (tt.why == "") {
				t.Errorf("%+v, want doubt %q", b, tt.why)
			}
		})
	}
}

// A profile with too few names explains how to get them.
func TestTooFewNames(t *testing.T) {
	p := script(t, "x 1/2 1.0: 10 cpu-clock:\n\t 55a1 [unknown] (/usr/local/bin/envoy)\n\n"+
		"x 1/2 1.0: 5 cpu-clock:\n\t 7f memcpy+0x1 (/lib/libc.so.6)\n\n"+
		"x 1/2 1.0: 10 cpu-clock:\n\t ffffffff81000000 tcp_sendmsg+0x7 ([kernel.kallsyms])\n\n")
	p.SetBuildIDs(map[string]string{"/usr/local/bin/envoy": "5f9ea2d586b07049159df48d248ff3b433e5b8ec"})
	trust := p.Distrust(nil)
	if trust.Enough || trust.User != 1.0/3 || trust.All != 0.6 {
		t.Errorf("%+v", trust)
	}
	b := p.Binaries[0]
	if b.Path != "/usr/local/bin/envoy" || b.Weight != 10 || b.Resolved != 0 {
		t.Errorf("%+v", b)
	}
	if how := HowToName(b); !strings.Contains(how, b.BuildID) {
		t.Error(how)
	}
	if view := NewView(p, "x", trust); view.Enough || len(view.Advice) == 0 {
		t.Errorf("%+v", view)
	}
}

func TestReadELF(t *testing.T) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Skip("no /proc:", err)
	}
	defer self.Close()
	e, err := ReadELF(self)
	if err != nil || e.Type == "" {
		t.Errorf("a Go program: %+v, %v", e, err)
	}
	lib := recorded(t, "exports.so")
	e, err = ReadELF(bytes.NewReader(lib))
	if err != nil || e.Type != TypeExports || len(e.BuildID) != 40 || e.Exports["exported"] == 0 || e.Exports["hidden"] != 0 {
		t.Errorf("a library without symbol table: %+v, %v", e, err)
	}
	for _, bad := range []string{"", "\x7fELF", "#!/bin/sh\n"} {
		if _, err := ReadELF(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is an ELF", bad)
		}
	}
}

func FuzzReadELF(f *testing.F) {
	f.Add(recorded(f, "exports.so"))
	f.Add([]byte("\x7fELF\x02\x01\x01\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ReadELF(bytes.NewReader(data))
		if err == nil && e.Type == "" {
			t.Error("no type")
		}
	})
}

// Distrust keeps every sample's weight, and is idempotent.
func TestDistrustProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := made(t)
		total := p.Total()
		files := map[string]ELF{}
		if rapid.Bool().Draw(t, "file") {
			files["/bin/x"] = ELF{Type: TypeExports, Exports: map[string]uint64{"main": 1}}
		}
		first := p.Distrust(files)
		var a, b bytes.Buffer
		must.OK(t, p.WriteFolded(&a))
		second := p.Distrust(files)
		must.OK(t, p.WriteFolded(&b))
		if p.Total() != total || first != second || a.String() != b.String() {
			t.Errorf("%d of %d, %+v then %+v\n%s\n%s", p.Total(), total, first, second, a.String(), b.String())
		}
	})
}

// Names that were judged with a file remain when the file is no longer
// available.
func TestVouchedNamesStay(t *testing.T) {
	p := script(t, stripped)
	p.Distrust(map[string]ELF{"/usr/local/bin/envoy": {Type: TypeFull}})
	want := text(t, p)
	empty, other := New(KindCPU, UnitNanoseconds), New(KindCPU, UnitNanoseconds)
	empty.Period, other.Period = p.Period, p.Period
	again := Merge([]*Profile{p, empty})
	other.Binary("/usr/local/bin/envoy")
	for _, p := range []*Profile{p, again, Merge([]*Profile{p, other})} {
		if trust := p.Distrust(nil); trust.User != 1 || text(t, p) != want {
			t.Errorf("%+v:\n%s", trust, text(t, p))
		}
	}
}

// The number of binaries is bounded, and many take little time.
func TestManyBinaries(t *testing.T) {
	p := New(KindCPU, UnitNanoseconds)
	ids := map[string]string{}
	for i := range 300_000 {
		ids["/lib/"+strconv.Itoa(i)] = "0123456789abcdef"
	}
	p.Binary("/lib/7")
	p.SetBuildIDs(ids)
	if len(p.Binaries) != maxBinaries || p.Binaries[0].BuildID == "" {
		t.Errorf("%d, %+v", len(p.Binaries), p.Binaries[0])
	}
	other := New(KindCPU, UnitNanoseconds)
	other.SetBuildIDs(map[string]string{"/bin/x": "0123456789abcdef", "/lib/7": "0123456789abcdef"})
	if whole := Merge([]*Profile{p, other}); len(whole.Binaries) != maxBinaries {
		t.Errorf("%d", len(whole.Binaries))
	}
	gone := New(KindCPU, UnitNanoseconds)
	for i := range 1 << 16 {
		module := "/lib/" + strconv.Itoa(i%maxBinaries) + deleted
		name := ""
		if i%2 == 0 {
			name = strconv.Itoa(i)
		}
		stack, _ := gone.Push(0, gone.Frame(Frame{Name: name, Module: module}))
		gone.Add(Sample{Stack: stack, Thread: gone.Thread(Thread{}), Weight: 1, TimeNS: NoTime})
	}
	gone.Distrust(nil)
	for _, b := range gone.Binaries[:10] {
		number, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(b.Path, "/lib/"), deleted))
		if named := number%2 == 0; (b.Doubt == "") != named {
			t.Errorf("%+v", b)
		}
	}
}
