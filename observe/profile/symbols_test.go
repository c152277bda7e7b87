package profile

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/elftest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// spinner builds the spinning program, with or without symbols.
func spinner(t *testing.T, ldflags string, flags ...string) string {
	t.Helper()
	return elftest.Spinner(t, append(flags, "-ldflags", ldflags)...)
}

func symbolsOf(t *testing.T, path string) *symbols {
	t.Helper()
	f, err := os.Open(path)
	must.OK(t, err)
	t.Cleanup(func() { f.Close() })
	s, err := readSymbols(f)
	must.OK(t, err)
	return s
}

// function returns the symbol of the spinning function.
func function(t *testing.T, path string) elf.Symbol {
	t.Helper()
	f, err := elf.Open(path)
	must.OK(t, err)
	defer f.Close()
	all, err := f.Symbols()
	must.OK(t, err)
	at := slices.IndexFunc(all, func(s elf.Symbol) bool { return s.Name == "main.spinForTheProfile" })
	if at < 0 {
		t.Fatal("the program has no such function")
	}
	return all[at]
}

const spinnerID = "0102030405060708090a0b0c0d0e0f1011121314"

// A symbol table and Go's own table name the same functions, and no addresses beyond
// a function's end.
func TestReadSymbols(t *testing.T) {
	full, stripped := spinner(t, "-B 0x"+spinnerID), spinner(t, "-s -w -B 0x"+spinnerID)
	f := function(t, full)
	for _, path := range []string{full, stripped} {
		s := symbolsOf(t, path)
		if (s.table != nil) != (path == stripped) || s.buildID != spinnerID || s.text.Size == 0 {
			t.Errorf("%s: Go's table %v, build id %s, text %+v", path, s.table != nil, s.buildID, s.text)
		}
		for address, ok := range map[uint64]bool{
			f.Value: true, f.Value + f.Size - 1: true, f.Value + 1<<40: false, f.Value - 1: false,
		} {
			name, found := s.find(address)
			if (found && name == f.Name) != ok {
				t.Errorf("%s: %x is %q, %v", path, address, name, found)
			}
		}
	}
	library, err := os.Open("testdata/exports.so")
	must.OK(t, err)
	defer library.Close()
	if _, err := readSymbols(library); !errors.Is(err, ErrNoSymbols) {
		t.Errorf("a stripped library: %v", err)
	}
}

// Go's table names functions in the output of Go's own linker. If a C linker put C's
// start code before Go's functions, there are no names rather than wrong ones.
func TestReadSymbolsOfGoByLinker(t *testing.T) {
	for _, tt := range []struct {
		mode, linker string
		named        bool
	}{
		{"exe", "internal", true}, {"pie", "internal", true}, {"exe", "external", false}, {"pie", "external", false},
	} {
		t.Run(tt.mode+" "+tt.linker, func(t *testing.T) {
			if _, err := exec.LookPath("gcc"); err != nil && !tt.named {
				t.Skip("there is no gcc to link with")
			}
			t.Setenv("CGO_ENABLED", "1")
			mode, linker := "-buildmode="+tt.mode, "-linkmode="+tt.linker
			file, err := os.Open(spinner(t, linker+" -s -w", mode))
			must.OK(t, err)
			defer file.Close()
			stripped, err := readSymbols(file)
			if !tt.named {
				if !errors.Is(err, ErrNoSymbols) {
					t.Errorf("%+v, %v", stripped, err)
				}
				return
			}
			if err != nil || stripped.table == nil {
				t.Fatalf("%+v, %v", stripped, err)
			}
			f := function(t, spinner(t, linker, mode))
			for address, ok := range map[uint64]bool{f.Value: true, f.Value + f.Size - 1: true, f.Value - 1: false} {
				if name, found := stripped.find(address); (found && name == f.Name) != ok {
					t.Errorf("%x is %q, %v", address, name, found)
				}
			}
		})
	}
}

// A profile of a stripped program can be named later, even after writing and reading
// it, but not if its frames have no offsets.
func TestSymbolise(t *testing.T) {
	full := spinner(t, "-B 0x"+spinnerID)
	f, s := function(t, full), symbolsOf(t, full)
	file, err := os.Open(full)
	must.OK(t, err)
	defer file.Close()
	text := offsetsScript("/bin/spinner", f.Value-s.text.Address+s.text.Offset)
	p, err := ReadPerfScriptOffsets(strings.NewReader(text),
		func(module string) bool { return module == "/bin/spinner" })
	must.OK(t, err)
	files := map[string]ELF{"/bin/spinner": {BuildID: spinnerID, Type: TypeStripped, Text: s.text}}
	if trust := p.Judge(files); trust.User != 0 {
		t.Fatalf("%+v", trust)
	}
	var kept bytes.Buffer
	must.OK(t, p.WritePprof(&kept))
	again, err := ReadPprof(&kept)
	must.OK(t, err)
	for which, p := range map[string]*Profile{"taken": p, "written and read": again} {
		unnamed := p.Unnamed()
		if len(unnamed) != 1 || unnamed[0].BuildID != spinnerID || unnamed[0].Weight != p.Total() {
			t.Fatalf("%s: %+v", which, unnamed)
		}
		p.Binary("/bin/spinner").BuildID = "ff"
		if err := p.Symbolise("/bin/spinner", file); !errors.Is(err, ErrOtherBuild) {
			t.Errorf("%s: of another build: %v", which, err)
		}
		p.Binary("/bin/spinner").BuildID = spinnerID
		if err := p.Symbolise("/bin/spinner", file); err != nil {
			t.Fatalf("%s: %v", which, err)
		}
		trust := p.Distrust(nil)
		if b := p.Binary("/bin/spinner"); trust.User != 1 || b.Type != TypeDebug {
			t.Errorf("%s: %+v, %+v", which, trust, b)
		}
		// The caller's address is the return address, in the next function.
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
	plain, err := ReadPerfScript(strings.NewReader(text))
	must.OK(t, err)
	plain.Judge(files)
	if err := plain.Symbolise("/bin/spinner", file); !errors.Is(err, ErrNoMatch) {
		t.Errorf("frames without offsets: %v", err)
	}
}

// offsetsScript has samples at the start of a function that is called from its end,
// with the markers of failed unwinding at the end of stacks.
func offsetsScript(module string, place uint64) string {
	const size = 0x10
	var b strings.Builder
	for i, end := range []string{"0", "ffffffffffffffff"} {
		fmt.Fprintf(&b, "spin 7/7 %d.000000: 10101010 cpu-clock: \n", i+1)
		fmt.Fprintf(&b, "\t%x [unknown] (%s)\n\t%x [unknown] (%s)\n\t%s [unknown] ([unknown])\n\n",
			place, module, place+size, module, end)
	}
	return b.String()
}

// A binary whose callers were lost gets a note.
func TestNoteCallers(t *testing.T) {
	sample := func(frames ...string) string {
		return "x 7/7 1.000000: 10101010 cpu-clock: \n\t" + strings.Join(frames, "\n\t") + "\n\n"
	}
	lost := sample("97eea4 <A as B>::poll+0x14 (/bin/proxy)", "0 [unknown] ([unknown])")
	const kernel = "ffffffff813a2313 finish_task_switch+0x93 ([kernel.kallsyms])"
	found := sample(kernel, "4010 main.f+0x1 (/bin/go)", "4020 runtime.goexit+0x1 (/bin/go)")
	inKernel := sample(kernel)
	for name, test := range map[string]struct{ text, want string }{
		"lost":                {lost + lost + found, "proxy keeps no frame pointers: of 100%"},
		"found":               {found + found + inKernel, ""},
		"lost now and then":   {lost + strings.Repeat(found, 20), ""},
		"in the kernel alone": {inKernel, ""},
	} {
		p, err := ReadPerfScript(strings.NewReader(test.text))
		must.OK(t, err)
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
		s, err := readSymbols(bytes.NewReader(data))
		if err != nil {
			return
		}
		if name, ok := s.find(address); ok && name == "" {
			t.Error("a function without a name was found")
		}
	})
}
