package profile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

// text returns a profile as folded stacks.
func text(t testing.TB, p *Profile) string {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, p.WriteFolded(&b))
	return b.String()
}

func script(t testing.TB, s string) *Profile {
	t.Helper()
	p, err := ReadPerfScript(strings.NewReader(s))
	must.OK(t, err)
	return p
}

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	must.OK(t, err)
	return data
}

func TestPerfScript(t *testing.T) {
	for _, tt := range []struct {
		name, in, want string
		note           string
	}{
		{name: "call graph, with all fields",
			in:   "wrk:worker_0 12/14 [001] 100.000000001:   10101010 cpu-clock:pppH: \n\t    7f3a leaf+0x1f (/usr/lib/libc.so.6)\n\t    55aa main+0x2 (/usr/bin/envoy)\n\n",
			want: "wrk:worker_0;main;leaf 1\n"},
		{name: "a thread's name with spaces, no PID, no period",
			in:   "dog:main thread  7 [000]  5.5: cycles: \n\t ffffffff81000000 do_syscall_64+0x7 ([kernel.kallsyms])\n\t 12 f(int (*)(char), long)+0x9 (/a b/c)\n\n",
			want: "dog:main thread;f(int (*)(char), long);do_syscall_64_[k] 1\n"},
		{name: "a method of Go, and a deleted binary",
			in:   "x 1/1 2.0: 3 cpu-clock: \n\t 12 main.(*T).Run+0x1 (/tmp/x (deleted))\n\n",
			want: "x;main.(*T).Run 1\n"},
		{name: "inlined frames lie in their caller's module",
			in:   "x 1/1 2.0: 3 cpu-clock: \n\t 12 inner (inlined)\n\t 12 outer+0x5 (/bin/x)\n\n",
			want: "x;outer;inner_[i] 1\n"},
		{name: "Rust's symbols of both kinds, and C++'s",
			in: "x 1/1 2.0: 3 cpu-clock: \n\t 12 _ZN101_$LT$ztunnel..inpod..config..InPodSocketPortReuseFactory$u20$as$u20$ztunnel..proxy..SocketFactory$GT$8tcp_bind17hb5d23ceabe0bed49E.llvm.42+0x1f (/usr/local/bin/ztunnel)\n" +
				"\t 13 _RINvMNtCsgEmfK2I1SDS_4core3stre18trim_start_matchesReECsgY6Mt91CT9J_14rustc_demangle+0x2 (/usr/local/bin/ztunnel)\n\t 14 _ZN5Envoy5Event14DispatcherImpl3runENS0_10Dispatcher7RunTypeE+0x2 (/usr/local/bin/envoy)\n\n",
			want: "x;Envoy::Event::DispatcherImpl::run(Envoy::Event::Dispatcher::RunType);<str>::trim_start_matches::<&str>;<ztunnel::inpod::config::InPodSocketPortReuseFactory as ztunnel::proxy::SocketFactory>::tcp_bind 1\n"},
		{name: "unknown symbols",
			in:   "x 1/1 2.0: 3 cpu-clock: \n\t 12 [unknown] (/usr/bin/envoy)\n\t 13 [unknown] ([unknown])\n\n",
			want: "x;[envoy] 1\n"},
		{name: "without call graph the only frame is in the line",
			in:   "x 1 2.0: 3 cpu-clock:  ffffffff81 f+0x1 (/bin/x)\n",
			want: "x;f 1\n"},
		{name: "several samples, and no empty line between them",
			in:   "x 1 2.0: 3 cpu-clock: \n\t 1 a (/bin/x)\nx 1 2.1: 3 cpu-clock: \n\t 1 a (/bin/x)\n",
			want: "x;a 2\n"},
		{name: "of several events the first",
			in:   "x 1 2.0: 3 cpu-clock: \n\t 1 a (/bin/x)\n\nx 1 2.1: 9 faults: \n\t 1 b (/bin/x)\n\n",
			want: "x;a 1\n", note: "1 samples of other events than cpu-clock"},
		{name: "comments and records",
			in:   "# ========\nx 0/0 0.0: PERF_RECORD_MMAP2 9/9: [0x40(0x10) @ 0 00:64 1 0]: r-xp /bin/x\nx 1 2.0: 3 cpu-clock: \n\t 1 a (/bin/x)\n\nx 1 2.0: PERF_RECORD_LOST lost 5\n",
			want: "x;a 1\n", note: "perf lost records in 1 places"},
		{name: "it ends in the middle of a line",
			in:   "x 1 2.0: 3 cpu-clock: \n\t 1 a (/bin/x)\n\nx 1 2.1: 3 cpu-clock: \n\t 1 b+0x",
			want: "x;a 1\n", note: "truncated"},
		{name: "lines of something else",
			in:   "x 1 2.0: 3 cpu-clock: \n\t 1 a (/bin/x)\n\nwhat is this\n",
			want: "x;a 1\n", note: "1 lines are not perf script's"},
		{name: "neither time, nor CPU, nor period",
			in:   "java 12 cycles:\n\t ffffffff81000000 do_idle ([kernel.kallsyms])\n\t 55aa main (/usr/bin/java)\n\njava 12 cycles:\n\t 55aa main (/usr/bin/java)\n\n",
			want: "java;main 1\njava;main;do_idle_[k] 1\n"},
		{name: "no time, but CPU, period and PID; a name with spaces",
			in:   "V8 Worker 2  12/14 [003]     250000 cpu-clock:u: \n\t    7f3a leaf+0x1f (/usr/bin/node)\n\n",
			want: "V8 Worker 2;leaf 1\n"},
		{name: "frames without their indentation",
			in:   "java 12 cycles:\nffffffff81000000 do_idle ([kernel.kallsyms])\n55aa f(int (*)(char), long) (/a b/c)\n\njava 12 2.0: cycles:\n55aa g (/a b/c)\n\n",
			want: "java;f(int (*)(char), long);do_idle_[k] 1\njava;g 1\n"},
		{name: "threads whose names are numbers, and no call graph",
			in:   "  dd 12 2.0: 3 cpu-clock:  41a3 vfs_read+0x1 (/bin/x)\n  dd 12 2.1: 3 cpu-clock:  41a4 vfs_read+0x2 (/bin/x)\ncc 12 cycles:  41a4 f (/bin/x)\n",
			want: "dd;vfs_read 2\n", note: "1 samples of other events than cpu-clock"},
		{name: "no event",
			in:   "x 12/14 [001] 2.0: \n\t 12 f+0x1 (/bin/x)\n\nx 12/14 [001] 2.1:  12 f+0x1 (/bin/x)\n",
			want: "x;f 2\n"},
		{name: "no modules",
			in:   "x 12 2.0: cycles: \n\t     5512 f(int)+0x1\n\t     55ab [unknown]\n\n",
			want: "x;f(int) 1\n"},
		{name: "a tracepoint, without time",
			in:   "x 12 [001] sched:sched_switch: prev_comm=x prev_pid=12 ==> next_comm=y\n\t 12 f+0x1 (/bin/x)\n\n",
			want: "x;f 1\n"},
		{name: "frames of other events, with indentation and without",
			in:   "x 1 cycles:\n\t 1 a (/bin/x)\n\nx 1 faults:\n\t 1 b (/bin/x)\n\nx 1 faults:\n1 b (/bin/x)\n\n",
			want: "x;a 1\n", note: "2 samples of other events than cycles"},
		{name: "the kernel by its file, at addresses in it",
			in:   "x 1 2.0: cycles: \n\t 41a3 vfs_read (/lib/modules/4.1.0/build/vmlinux)\n\t 7d8 helper+0x7f ([some_module])\n\t 9 f ([vdso])\n\t 55aa main (/bin/x)\n\n",
			want: "x;main;f;helper_[k];vfs_read_[k] 1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := script(t, tt.in)
			if got := text(t, p); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if notes := strings.Join(p.Notes, "\n"); tt.note == "" && notes != "" || !strings.Contains(notes, tt.note) {
				t.Errorf("notes %q, want %q", notes, tt.note)
			}
		})
	}
}

// Recordings of a Go program and of the kernel yield times, weights and
// modules.
func TestPerfScriptRecorded(t *testing.T) {
	p := script(t, string(recorded(t, "meshtrial.perf.txt")))
	if p.Len() != 8 || p.Unit != UnitNanoseconds || p.Period != 2004008 || p.Event != "cpu-clock" || len(p.Notes) > 0 || p.Taken() != 8 {
		t.Errorf("%d samples, %s, period %d, event %q, notes %q", p.Len(), p.Unit, p.Period, p.Event, p.Notes)
	}
	first := slices.Collect(p.Samples())[0]
	if first.TimeNS != 16387066591000 || p.threads[first.Thread] != (Thread{"meshtrial", 29734, 29747}) {
		t.Errorf("%+v of %+v", first, p.threads[first.Thread])
	}
	frames := p.Frames(first.Stack)
	if f := frames[len(frames)-1]; f.Name != "github.com/meshtrial/meshtrial/xds.(*sightings).remember" || f.Module != "/usr/local/bin/meshtrial" || f.Kernel {
		t.Errorf("%+v", f)
	}
	kernel := script(t, string(recorded(t, "kernel.perf.txt")))
	in, out := 0, 0
	for _, f := range kernel.frames {
		if f.Kernel != (f.Module == "[kernel.kallsyms]") {
			t.Errorf("%+v", f)
		}
		if f.Kernel {
			in++
		} else {
			out++
		}
	}
	if in == 0 || out == 0 || kernel.Period != 200000 {
		t.Errorf("%d frames of the kernel, %d of programs, period %d", in, out, kernel.Period)
	}
}

func TestForeignFiles(t *testing.T) {
	for name, in := range map[string]string{
		"empty": "", "prose": "Dear Sir or Madam,\nplease find enclosed\n", "JSON": `{"a": 1}`, "zeros": string(make([]byte, 100)),
		"prose that looks like a header": "Chapter 12 introduction:\n\nIt was a dark and stormy night.\n",
		"a picture":                      "\x89PNG\r\n\x1a\n\x00\x00", "a broken gzip": "\x1f\x8bxyz", "an ELF": "\x7fELF\x02\x01\x01\x00",
	} {
		if p, err := Read(strings.NewReader(in)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	if _, err := Read(strings.NewReader("PERFILE2h\x00")); !errors.Is(err, ErrPerfData) {
		t.Errorf("perf.data: %v", err)
	}
}

// Read detects formats from their content.
func TestRead(t *testing.T) {
	for name, want := range map[string]struct {
		in    string
		event string
		total int64
	}{
		"perf script":                {string(recorded(t, "kernel.perf.txt")), "cpu-clock", 600000},
		"perf script without times":  {"# captured on: some day\n#\njava  3244 cpu-clock: \n\t 12 f (/bin/x)\n\n", "cpu-clock", 1},
		"folded stacks":              {"main;a b;c 12\n", "", 12},
		"folded stacks, a long line": {strings.Repeat("main;", 1<<15) + "a 7\n", "", 7},
		"pprof":                      {string(pprofOf(t, map[string]int64{"leaf<main": 30})), "", 30},
	} {
		p, err := Read(strings.NewReader(want.in))
		if err != nil || p.Event != want.event || p.Total() != want.total {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

func TestFolded(t *testing.T) {
	p, err := ReadFolded(strings.NewReader("main;a;tcp_sendmsg_[k] 3\n\nmain;[envoy] 4\r\nmain;b_[i] 5"))
	must.OK(t, err)
	if got, want := text(t, p), "main;[envoy] 4\nmain;a;tcp_sendmsg_[k] 3\nmain;b_[i] 5\n"; got != want {
		t.Errorf("%q", got)
	}
	if p.Taken() != 12 {
		t.Errorf("%d samples", p.Taken())
	}
	for _, bad := range []string{"main;a\n", "main;a x\n", "main;a -3\n", "main;a 99999999999999999999\n", " 3\n"} {
		if _, err := ReadFolded(strings.NewReader(bad)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "line 1") && bad != " 3\n" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// made draws a random profile.
func made(t *rapid.T) *Profile {
	p := New(KindCPU, UnitNanoseconds)
	p.Period = 1000
	names := []string{"main", "a", "b::c(int)", "operator new", "", "x.(*T).Run"}
	modules := []string{"/bin/x", "/lib/libc.so.6", "[vdso]", "/tmp/x (deleted)"}
	n := rapid.IntRange(1, 40).Draw(t, "samples")
	for i := range n {
		depth := rapid.IntRange(1, 6).Draw(t, "depth")
		user := rapid.IntRange(0, depth).Draw(t, "user")
		module := ""
		var frames []Frame
		for d := range depth {
			f := Frame{Name: rapid.SampledFrom(names).Draw(t, "name"), Module: rapid.SampledFrom(modules).Draw(t, "module")}
			switch {
			case d >= user:
				f.Module, f.Kernel = "[kernel.kallsyms]", true
			case d > 0 && f.Name != "" && rapid.Bool().Draw(t, "inlined"):
				f.Inlined, f.Module = true, module
			}
			module = f.Module
			frames = append(frames, f)
		}
		who := Thread{rapid.SampledFrom([]string{"wrk:worker_0", "main", ""}).Draw(t, "thread"), 1, rapid.IntRange(1, 3).Draw(t, "tid")}
		p.Add(Sample{Stack: p.stack(frames), Thread: p.Thread(who), Weight: rapid.Int64Range(1, 5).Draw(t, "weight") * 1000, TimeNS: int64(i) * 1e6})
	}
	return p
}

// Stacks, threads and times survive writing and reading in pprof format.
func TestPprofRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := made(t)
		p.SetBuildIDs(map[string]string{"/bin/x": "abcdef0123456789"})
		p.Notes = []string{"a note"}
		var b bytes.Buffer
		must.OK(t, p.WritePprof(&b))
		q, err := ReadPprof(bytes.NewReader(b.Bytes()))
		must.OK(t, err)
		show := func(p *Profile) (out []string) {
			for s := range p.Samples() {
				out = append(out, fmt.Sprint(p.threads[s.Thread], s.TimeNS, s.Weight, p.Frames(s.Stack)))
			}
			slices.Sort(out)
			return out
		}
		if a, b := show(p), show(q); !slices.Equal(a, b) {
			t.Errorf("wrote\n%s\nread\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
		if q.Unit != p.Unit || q.Period != p.Period || q.Kind != p.Kind || q.Binary("/bin/x").BuildID != "abcdef0123456789" || !slices.Equal(q.Notes, p.Notes) {
			t.Errorf("%+v", q.Binaries)
		}
	})
}

// Folded stacks keep every weight, and survive reading and writing.
func TestFoldedRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := made(t)
		var first, second bytes.Buffer
		must.OK(t, p.WriteFolded(&first))
		q, err := ReadFolded(bytes.NewReader(first.Bytes()))
		must.OK(t, err)
		must.OK(t, q.WriteFolded(&second))
		if first.String() != second.String() || p.Total() != q.Total() && p.Taken() != q.Total() {
			t.Errorf("%q\nthen %q", first.String(), second.String())
		}
	})
}

// With large and odd stacks, memory is bounded and weights are complete.
func TestBounds(t *testing.T) {
	deep := "x 1 2.0: 3 cpu-clock: \n" + strings.Repeat("\t 1 a+0x1 (/bin/x)\n\t 1 b+0x1 (/bin/x)\n", 5000) + "\n"
	p := script(t, deep)
	if p.Total() != 3 || p.cut == 0 || len(p.paths) > maxDepth+2 || !strings.Contains(strings.Join(p.Notes, ""), "deeper") {
		t.Errorf("total %d, cut %d, %d paths, notes %q", p.Total(), p.cut, len(p.paths), p.Notes)
	}
	if _, err := ReadPerfScript(strings.NewReader(strings.Repeat("x", maxLine+2))); !errors.Is(err, ErrFormat) {
		t.Errorf("an endless line: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("PERFILE2h\x00"))
	f.Add([]byte("\x0a\x04\x08\x01\x10\x02"))
	f.Add(legacyCPU(8, binary.LittleEndian, 10_000, []uint64{5, 0x401010, 0x402021}))
	f.Add(legacyCPU(4, binary.BigEndian, 10_000, []uint64{5, 0x401010, 0x402021}))
	f.Add([]byte("heap profile: 1: 8 [1: 8] @ heap_v2/524288\n1: 8 [1: 8] @ 0x401011\n\nMAPPED_LIBRARIES:\n" + legacyMaps))
	f.Add([]byte("--- contentionz 1 ---\ncycles/second = 1000\nsampling period = 1\n5 1 @ 0x401011\n"))
	f.Add(recorded(f, "meshtrial.perf.txt"))
	f.Add(recorded(f, "kernel.perf.txt"))
	f.Add(pprofOf(f, map[string]int64{"leaf<middle<main.main": 30}))
	for _, text := range []string{
		"--- contention:\ncycles/second=1000\n", "\x1f\x8b", "main;a;tcp_sendmsg_[k] 3\nmain;[envoy] 4\n",
		"x 1/1 2.0: 3 cpu-clock:\n\t 12 inner (inlined)\n\t 12 outer+0x5 (/bin/x (deleted))\n",
		"java 12 cycles:\nffffffff81000000 do_idle ([kernel.kallsyms])\n55aa f (/a b/c)\n\nV8 W 1/2 [003] 250000 sched:x: a=b\n\t 5512 f\n",
		"x 0/0 0.0: PERF_RECORD_MMAP2 9/9: [0x40(0x10) @ 0 00:64 1 0]: r-xp /bin/x\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Read(bytes.NewReader(data))
		if err == nil {
			whole(t, p)
		}
	})
}

// whole checks invariants of every profile, and that deriving results does not
// panic.
func whole(t *testing.T, p *Profile) {
	t.Helper()
	total := p.Total()
	trust := p.Distrust(nil)
	if p.Total() != total {
		t.Errorf("%d, but %d before", p.Total(), total)
	}
	if trust.User < 0 || trust.User > 1 || trust.All < 0 || trust.All > 1 {
		t.Errorf("trust %+v", trust)
	}
	p.Top(10)
	p.ByThread()
	var b bytes.Buffer
	if err := p.WriteFolded(&b); err != nil {
		t.Error(err)
	}
}
