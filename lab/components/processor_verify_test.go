//go:build verify

package components

import (
	"debug/elf"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Whatever this machine is, what is downloaded for a processor is for that one.
func TestOtherProcessor(t *testing.T) {
	for arch, machine := range machines {
		b, err := New(Options{CacheDir: t.TempDir(), Arch: arch})
		must.OK(t, err)
		set, err := b.Ensure(t.Context(), "envoy", "containerd")
		must.OK(t, err)
		found := 0
		for _, dir := range []string{filepath.Dir(set.programs["envoy"].Path), filepath.Dir(filepath.Dir(set.programs["runc"].Path))} {
			must.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return err
				}
				f, err := elf.Open(path)
				if err != nil {
					return nil // no program
				}
				defer f.Close()
				if found++; f.Machine != machine {
					t.Errorf("%s: %s is for %v", arch, path, f.Machine)
				}
				return nil
			}))
		}
		if found < 40 {
			t.Errorf("%s: only %d programs and libraries", arch, found)
		}
	}
}
