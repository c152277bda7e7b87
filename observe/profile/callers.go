package profile

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/meshtrial/meshtrial/internal/lazyregexp"
)

// reStart matches the functions at which threads and programs start.
var reStart = lazyregexp.New(`^(?:_start|main|_?_?libc_start\w*|__libc_start_call_main|start_thread|__?clone3?|` +
	`thread_start|runtime\.\S+|std::sys::\S*thread\S*|_?rust_eh\S*)(?:@.*)?$`)

// shallow is the number of user-space frames from which a stack counts as
// complete wherever it starts: C library functions without frame pointers
// occasionally hide their callers.
const shallow = 5

// lostShare is the share of a binary's weight with lost callers from which
// [Profile.NoteCallers] reports it.
const lostShare = 0.5

// NoteCallers notes the binaries whose callers were lost. This happens with
// frame-pointer call graphs in programs built without frame pointers. Call it
// before [Profile.Distrust], which joins frames.
func (p *Profile) NoteCallers() {
	type sum struct{ lost, all float64 }
	sums := map[string]sum{}
	for s := range p.Samples() {
		depth, inner := 0, ""
		var outer Frame
		for id := range p.Inner(s.Stack) {
			if f := p.frames[id]; !f.Kernel && f.Module != vdso {
				depth, outer = depth+1, f
				inner = cmp.Or(inner, f.Module)
			}
		}
		if depth == 0 || inner == "" {
			continue
		}
		one := sums[inner]
		one.all += float64(s.Weight)
		if depth < shallow && !reStart.MatchString(outer.Name) {
			one.lost += float64(s.Weight)
		}
		sums[inner] = one
	}
	for _, b := range p.Binaries {
		one, name := sums[b.Path], path.Base(b.Path)
		if strings.Contains(name, ".so") || one.all < 0.1*float64(p.Total()) || one.lost <= lostShare*one.all {
			continue
		}
		p.Notes = append(p.Notes, fmt.Sprintf("%s keeps no frame pointers: of %.0f%% of the time in it the callers are "+
			"missing, and what a function calls is not counted for it. Call graph dwarf finds them by copies of the stack",
			name, 100*one.lost/one.all))
	}
}
