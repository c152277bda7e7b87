package profile_test

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/observe/profile"
)

// spinner builds the program that spins, with or without its symbols.
func spinner(t *testing.T, ldflags string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spinner")
	if out, err := exec.Command("go", append(append([]string{"build"}, flags...), "-ldflags", ldflags, "-o", path, "./perf/testdata/spin")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func symbols(t *testing.T, path string) *profile.Symbols {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s, err := profile.ReadSymbols(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// function is the symbol of the function that spins.
func function(t *testing.T, path string) elf.Symbol {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(s elf.Symbol) bool { return s.Name == "main.spinForTheProfile" })
	if at < 0 {
		t.Fatal("the program has no such function")
	}
	return all[at]
}

const buildID = "0102030405060708090a0b0c0d0e0f1011121314"

// A binary's own table and Go's name the same functions, and neither names what
// lies behind a function's end.
func TestReadSymbols(t *testing.T) {
	full, stripped := spinner(t, "-B 0x"+buildID), spinner(t, "-s -w -B 0x"+buildID)
	f := function(t, full)
	for path, want := range map[string]string{full: profile.TypeFull, stripped: profile.TypeGo} {
		s := symbols(t, path)
		if s.Type != want || s.BuildID != buildID || s.Text.Size == 0 {
			t.Errorf("%s: %s, build id %s, text %+v", want, s.Type, s.BuildID, s.Text)
		}
		for address, ok := range map[uint64]bool{f.Value: true, f.Value + f.Size - 1: true, f.Value + 1<<40: false, f.Value - 1: false} {
			name, found := s.Find(address)
			if (found && name == f.Name) != ok {
				t.Errorf("%s: %x is %q, %v", want, address, name, found)
			}
		}
	}
	library, err := os.Open("testdata/exports.so")
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	if _, err := profile.ReadSymbols(library); !errors.Is(err, profile.ErrNoSymbols) {
		t.Errorf("a stripped library: %v", err)
	}
}

// Go's table names the same functions however a program was linked: C's start
// lies before Go's functions in one that was linked by the C compiler, and one
// that runs anywhere has its addresses written by the loader.
func TestReadSymbolsOfGoHoweverLinked(t *testing.T) {
	for _, link := range [][]string{
		{"-buildmode=exe", "-linkmode=internal"}, {"-buildmode=pie", "-linkmode=internal"},
		{"-buildmode=exe", "-linkmode=external"}, {"-buildmode=pie", "-linkmode=external"},
	} {
		name := strings.Join(link, " ")
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("gcc"); err != nil && strings.Contains(name, "external") {
				t.Skip("there is no gcc to link with")
			}
			t.Setenv("CGO_ENABLED", "1")
			f := function(t, spinner(t, link[1], link[0]))
			stripped := symbols(t, spinner(t, link[1]+" -s -w", link[0]))
			if stripped.Type != profile.TypeGo {
				t.Fatalf("names are from %s", stripped.Type)
			}
			for address, ok := range map[uint64]bool{f.Value: true, f.Value + f.Size - 1: true, f.Value - 1: false} {
				if name, found := stripped.Find(address); (found && name == f.Name) != ok {
					t.Errorf("%x is %q, %v", address, name, found)
				}
			}
		})
	}
}

// Where Go's code begins in a program that was linked by the C compiler nothing
// tells but the runtime's note: without it there are no names, rather than wrong
// ones.
func TestReadSymbolsWithoutTheModulesNote(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("there is no gcc to link with")
	}
	t.Setenv("CGO_ENABLED", "1")
	path := spinner(t, "-linkmode=external -s -w")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := profile.ReadSymbols(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	table := binary.LittleEndian.AppendUint64(nil, f.Section(".gopclntab").Addr)
	for _, s := range f.Sections {
		if s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_WRITE != 0 {
			part := data[s.Offset : s.Offset+s.FileSize]
			copy(part, bytes.ReplaceAll(part, table, make([]byte, 8)))
		}
	}
	if _, err := profile.ReadSymbols(bytes.NewReader(data)); !errors.Is(err, profile.ErrNoSymbols) {
		t.Errorf("%v", err)
	}
}

// A section that would unpack itself to any size is read as it lies there.
func TestReadSymbolsUnpacksNothing(t *testing.T) {
	path := spinner(t, "-s -w -B 0x"+buildID)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	names := f.Section(".shstrtab")
	at := bytes.Index(data[names.Offset:names.Offset+names.FileSize], []byte(".noptrdata\x00"))
	if at < 0 {
		t.Fatal("there is no .noptrdata")
	}
	copy(data[int(names.Offset)+at:], ".zdebug_aa\x00")
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	room := f.Section(".noptrdata")
	unpacked := int(room.FileSize) * 500
	if _, err := w.Write(make([]byte, unpacked)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil || packed.Len()+12 > int(room.FileSize) {
		t.Fatalf("%d bytes do not fit into %d, %v", packed.Len(), room.FileSize, err)
	}
	binary.BigEndian.PutUint64(data[room.Offset+4:], uint64(unpacked))
	copy(data[room.Offset:], "ZLIB")
	copy(data[room.Offset+12:], packed.Bytes())
	module := f.Section(".go.module") // so that all sections are looked at
	clear(data[module.Offset : module.Offset+module.FileSize])
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if s, err := profile.ReadSymbols(bytes.NewReader(data)); err != nil || s.Type != profile.TypeGo {
		t.Errorf("%v", err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > uint64(unpacked)/2 {
		t.Errorf("%d KB were allocated for a file of %d KB", got>>10, len(data)>>10)
	}
}

// A profile of a stripped program gets its names later, also after it was
// written and read; without the places that the text of perf has, it gets none.
func TestSymbolise(t *testing.T) {
	full := spinner(t, "-B 0x"+buildID)
	f, s := function(t, full), symbols(t, full)
	place := f.Value - s.Text.Address + s.Text.Offset
	text := scriptOf("/bin/spinner", place)
	p, err := profile.ReadPerfScriptPlaces(strings.NewReader(text), func(module string) bool { return module == "/bin/spinner" })
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]profile.ELF{"/bin/spinner": {BuildID: buildID, Type: profile.TypeStripped, Text: s.Text}}
	if trust := p.Judge(files); trust.User != 0 {
		t.Fatalf("%+v", trust)
	}
	var kept bytes.Buffer
	if err := p.WritePprof(&kept); err != nil {
		t.Fatal(err)
	}
	again, err := profile.ReadPprof(&kept)
	if err != nil {
		t.Fatal(err)
	}
	for which, p := range map[string]*profile.Profile{"taken": p, "written and read": again} {
		unnamed := p.Unnamed()
		if len(unnamed) != 1 || unnamed[0].BuildID != buildID || unnamed[0].Weight != p.Total() {
			t.Fatalf("%s: %+v", which, unnamed)
		}
		if n := p.Symbolise("/bin/spinner", s); n == 0 {
			t.Fatalf("%s: nothing is named", which)
		}
		trust := p.Distrust(nil)
		if b := p.Binary("/bin/spinner"); trust.User != 1 || b.Type != profile.TypeDebug {
			t.Errorf("%s: %+v, %+v", which, trust, b)
		}
		// The caller's address is that of its return, which is the next function's.
		for _, c := range p.Top(1) {
			if c.Function != f.Name {
				t.Errorf("%s: %+v", which, c)
			}
		}
		for sample := range p.Samples() {
			if frames := p.Frames(sample.Stack); len(frames) != 2 || frames[0].Name != f.Name {
				t.Errorf("%s: %+v", which, frames)
			}
		}
	}
	plain, err := profile.ReadPerfScript(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	plain.Judge(files)
	if n := plain.Symbolise("/bin/spinner", s); n != 0 {
		t.Errorf("%d frames without a place are named", n)
	}
}

// scriptOf is a sample at the begin of a function, called from its end, and the
// marks with which ways up end that were lost.
func scriptOf(module string, place uint64) string {
	size := uint64(0x10)
	var b strings.Builder
	for i, end := range []string{"0 [unknown] ([unknown])", "ffffffffffffffff [unknown] ([unknown])"} {
		b.WriteString("spin 7/7 " + string(rune('1'+i)) + ".000000: 10101010 cpu-clock: \n")
		b.WriteString("\t" + hex(place) + " [unknown] (" + module + ")\n\t" + hex(place+size) + " [unknown] (" + module + ")\n\t" + end + "\n\n")
	}
	return b.String()
}

func hex(n uint64) string {
	const digits = "0123456789abcdef"
	out := ""
	for ; n > 0; n /= 16 {
		out = string(digits[n%16]) + out
	}
	return out
}

// Where the way up is lost, that is told, and of which binary; where it is not,
// nothing is.
func TestNoteCallers(t *testing.T) {
	sample := func(frames ...string) string {
		return "x 7/7 1.000000: 10101010 cpu-clock: \n\t" + strings.Join(frames, "\n\t") + "\n\n"
	}
	lost := sample("97eea4 <A as B>::poll+0x14 (/bin/proxy)", "0 [unknown] ([unknown])")
	goes := sample("ffffffff813a2313 finish_task_switch+0x93 ([kernel.kallsyms])", "4010 main.f+0x1 (/bin/go)", "4020 runtime.goexit+0x1 (/bin/go)")
	inKernel := sample("ffffffff813a2313 finish_task_switch+0x93 ([kernel.kallsyms])")
	for name, test := range map[string]struct{ text, want string }{
		"lost":                {lost + lost + goes, "proxy keeps no frame pointers: of 100%"},
		"found":               {goes + goes + inKernel, ""},
		"lost now and then":   {lost + strings.Repeat(goes, 20), ""},
		"in the kernel alone": {inKernel, ""},
	} {
		p, err := profile.ReadPerfScript(strings.NewReader(test.text))
		if err != nil {
			t.Fatal(err)
		}
		p.Binary("/bin/proxy")
		p.Binary("/bin/go")
		p.NoteCallers()
		if notes := strings.Join(p.Notes, "\n"); test.want == "" && notes != "" || !strings.Contains(notes, test.want) {
			t.Errorf("%s: %q", name, notes)
		}
	}
}

func FuzzReadSymbols(f *testing.F) {
	if data, err := os.ReadFile("testdata/exports.so"); err == nil {
		f.Add(data, uint64(0x1100))
	}
	f.Fuzz(func(t *testing.T, data []byte, address uint64) {
		s, err := profile.ReadSymbols(bytes.NewReader(data))
		if err != nil {
			return
		}
		if name, ok := s.Find(address); ok && name == "" {
			t.Error("a function without a name was found")
		}
	})
}
