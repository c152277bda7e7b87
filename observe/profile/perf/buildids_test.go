package perf

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A list of build IDs comes from an untrusted file, and is bounded.
func TestBuildIDsAreBounded(t *testing.T) {
	var onePath, paths strings.Builder
	for i := range 3 * maxIDs {
		fmt.Fprintf(&onePath, "%040x /bin/x\n", i)
		fmt.Fprintf(&paths, "%040x /bin/x%d\n", i, i)
	}
	ids, err := readBuildIDs(strings.NewReader(onePath.String()))
	if err != nil || len(ids) != 1 || len(ids["/bin/x"]) != maxBuilds {
		t.Errorf("of one path %d ids are kept, %v", len(ids["/bin/x"]), err)
	}
	if ids, err = readBuildIDs(strings.NewReader(paths.String())); err != nil || len(ids) != maxIDs {
		t.Errorf("%d paths are kept, %v", len(ids), err)
	}
}

// FuzzReadBuildIDs verifies that everything read is in the list, with each ID
// of a path once.
func FuzzReadBuildIDs(f *testing.F) {
	const twice = "5f9ea2d586b07049159df48d248ff3b433e5b8ec /usr/local/bin/a b\n"
	f.Add([]byte("e4f18d9dc1d0e6fc2b17e93e885a647b3c0a6fc1 [kernel.kallsyms]\n" + twice + twice))
	f.Add([]byte("e4f18d9dc1d0e6fc2b17e93e885a647b3c0a6fc1 x\ne4f18d9dc1d0e6fc2b17e93e885a647b3c0a6fc2 x\nnone\n"))
	f.Fuzz(func(t *testing.T, list []byte) {
		ids, err := readBuildIDs(bytes.NewReader(list))
		if err != nil {
			return
		}
		for path, all := range ids {
			different := len(slices.Compact(slices.Sorted(slices.Values(all))))
			if path == "" || !bytes.Contains(list, []byte(path)) || different == 0 || len(all) > maxBuilds ||
				len(all) != different {
				t.Errorf("%q: %q has %q", list, path, all)
			}
			for _, id := range all {
				if !bytes.Contains(list, []byte(id)) {
					t.Errorf("%q has no id %q", list, id)
				}
			}
		}
	})
}
