package components

import (
	"debug/elf"
	"os"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// machines maps Go's names of the supported processors to ELF's.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// Source is a program outside the cache, such as one in a user's folder.
type Source struct{ Path, Sum string } // sha256:...

// OpenSource rejects a file that is not a program for this machine.
func OpenSource(path string) (Source, error) {
	if info, err := os.Stat(path); err != nil {
		return Source{}, err
	} else if !info.Mode().IsRegular() {
		return Source{}, errs.Usage("%s is not a file", path)
	}
	f, err := elf.Open(path)
	if err != nil {
		return Source{}, errs.Usage("%s is not a Linux program: %v", path, err)
	}
	defer f.Close()
	if want, ok := machines[runtime.GOARCH]; ok && f.Machine != want {
		return Source{}, errs.Usage("%s is built for %v, but this machine is %v", path, f.Machine, want)
	}
	_, sum, err := sumFile(path, false)
	return Source{path, "sha256:" + sum}, err
}

// checkRuns rejects a program that needs a library, or a newer C library, that its
// image lacks.
func checkRuns(path string, debian entry) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil || len(libraries) == 0 {
		return nil // static
	}
	have, err := namesBelow(debian.path("image"))
	if err != nil {
		return err
	}
	hint := "build it on Debian 12 or an older system, or link it statically"
	for _, library := range libraries {
		if !have[library] {
			return errs.WithHint(errs.Usage("%s needs library %s, which its image does not contain", path, library), "%s", hint)
		}
	}
	var libc string
	for _, v := range debian.Versions {
		if v.Name == "libc6" {
			libc, _, _ = strings.Cut(v.Version, "-")
		}
	}
	symbols, err := f.ImportedSymbols()
	if err != nil || libc == "" {
		return nil
	}
	for _, s := range symbols {
		if needs, ok := strings.CutPrefix(s.Version, "GLIBC_"); ok && newer(needs, libc) {
			return errs.WithHint(errs.Usage("%s needs version %s of the C library, but its image contains %s", path, needs, libc), "%s", hint)
		}
	}
	return nil
}

// newer compares versions made of numbers and dots; other versions are never
// newer.
func newer(a, b string) bool {
	v, err := version.ParseGeneric(a)
	w, err2 := version.ParseGeneric(b)
	return err == nil && err2 == nil && w.LessThan(v)
}
