package profile

import (
	"fmt"
	"path"
	"strings"

	"github.com/meshtrial/meshtrial/internal/lazyregexp"
)

// reStart matches functions that nobody calls: where threads and programs
// begin.
var reStart = lazyregexp.New(`^(?:_start|main|_?_?libc_start\w*|__libc_start_call_main|start_thread|__?clone3?|thread_start|runtime\.\S+|std::sys::\S*thread\S*|_?rust_eh\S*)(?:@.*)?$`)

// shallow is how many frames a stack in user space may have before it must
// begin where threads do: helpers of the C library, which keep no frame
// pointers, hide what called them now and then.
const shallow = 5

// cutShare is the share of a binary's weight with lost callers from which that
// is told.
const cutShare = 0.5

// NoteCallers looks whether the way up from samples in user space was lost, as
// it is by frame pointers in programs that keep none, and notes it by binary.
// It must be called while frames have their places, before
// [Profile.Distrust].
func (p *Profile) NoteCallers() {
	type sum struct{ lost, all float64 }
	sums := map[string]*sum{}
	for s := range p.Samples() {
		depth, inner := 0, ""
		var outer Frame
		for id := range p.Inner(s.Stack) {
			if f := p.frames[id]; !f.Kernel && f.Module != vdso {
				depth, outer = depth+1, f
				if inner == "" {
					inner = f.Module
				}
			}
		}
		if depth == 0 || inner == "" {
			continue
		}
		one := sums[inner]
		if one == nil {
			one = &sum{}
			sums[inner] = one
		}
		one.all += float64(s.Weight)
		if depth < shallow && !reStart.MatchString(outer.Name) {
			one.lost += float64(s.Weight)
		}
	}
	for _, b := range p.Binaries {
		if one := sums[b.Path]; one != nil && !strings.Contains(path.Base(b.Path), ".so") && one.all >= 0.1*float64(p.Total()) && one.lost > cutShare*one.all {
			p.Notes = append(p.Notes, fmt.Sprintf("%s keeps no frame pointers: of %.0f%% of the time in it the callers are missing, and what a function calls is not counted for it. Call graph dwarf finds them by copies of the stack", path.Base(b.Path), 100*one.lost/one.all))
		}
	}
}
