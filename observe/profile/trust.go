package profile

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
)

// tooFar is the offset into a function, in bytes, beyond which its name counts
// as a guess: no real function is that large. If the symbol table has gaps,
// perf names an address after the preceding function.
const tooFar = 256 << 10

// guessedShare is the share of a binary's weight that must be too far into
// functions before all of its names are distrusted.
const guessedShare = 0.02

// TrustedShare is the share of samples that must have a name for reports to
// show functions. Below it, they show modules and the kernel's functions.
const TrustedShare = 0.5

// Reasons to remove a binary's names.
const (
	DoubtBuild   = "other build" // the available file is not the one that ran
	DoubtDeleted = "deleted"     // the file was deleted or replaced while it ran
	DoubtGuessed = "guessed"     // perf attributed too much to the few functions it knew
)

// Trust is the share of a profile's time with trustworthy names.
type Trust struct {
	// User is the share of the weight of user-space samples whose innermost
	// frame has a name; All is the same for all samples.
	User, All float64
	// Enough means that User reaches [TrustedShare], or nothing needs a name.
	Enough bool
}

// Distrust is like [Profile.Judge], but also drops the offsets of frames:
// consecutive frames without a name in a module become one.
func (p *Profile) Distrust(at map[string]ELF) Trust {
	p.Judge(at)
	p.forgetOffsets()
	return p.resolve()
}

// Judge removes the names that are not trustworthy, and returns the share that
// still has a name. Frames keep their offsets, so that [Profile.Symbolise] can
// still name them. at has the available files by their path in the profile; a
// file whose build ID differs from the profile's is not the one that ran.
//
// In a binary that names only its exported functions, an address keeps its name
// if it lies within that function. If the file is unavailable, it may be up to
// [tooFar] into it.
func (p *Profile) Judge(at map[string]ELF) Trust {
	at = maps.Clone(at)
	for _, b := range p.Binaries {
		if b.Type == TypeDebug || b.Type == TypeGo {
			delete(at, b.Path) // its names already come from elsewhere
		}
	}
	named := p.named()
	doubts := map[string]string{}
	doubt := func(module, code, why string) {
		doubts[module] = code
		if b := p.Binary(module); b != nil {
			b.Doubt, b.Why = code, why
		}
	}
	for module := range p.modules() {
		file, ok := at[module]
		if ok {
			b := p.Binary(module)
			if b == nil {
				b = &Binary{} // beyond maxBinaries
			}
			b.Type, b.Text = file.Type, file.Text
			switch {
			case b.BuildID == "":
				b.BuildID = file.BuildID
			case !strings.HasPrefix(b.BuildID, file.BuildID) && !strings.HasPrefix(file.BuildID, b.BuildID):
				doubt(module, DoubtBuild, fmt.Sprintf("the file at hand has build id %s, and what ran had %s: "+
					"the binary was replaced", short(file.BuildID), short(b.BuildID)))
			}
		}
		if strings.HasSuffix(module, deleted) && doubts[module] == "" && !named[module] {
			doubt(module, DoubtDeleted, "the file was deleted or replaced while the program ran")
		}
	}
	for module, share := range p.guesses(at) {
		if share > guessedShare && doubts[module] == "" {
			doubt(module, DoubtGuessed, fmt.Sprintf("it has no symbol table: %.0f%% of the time in it is beyond the end of the "+
				"exported function that perf named it after", 100*share))
		}
	}
	p.rewrite(func(id FrameID, f Frame) Frame {
		if f.Name == "" || f.Kernel {
			return f
		}
		gone := doubts[f.Module] != ""
		if file, ok := at[f.Module]; ok && file.Type == TypeExports && (!gone || doubts[f.Module] == DoubtGuessed) {
			size, exported := file.Exports[f.Name]
			gone = !exported || uint64(p.offsets[id]) >= max(size, 1)
		}
		if gone {
			f.Name, f.Inlined = "", false
		}
		return f
	}, false)
	return p.resolve()
}

func short(id string) string { return id[:min(len(id), 12)] }

// modules returns the modules of user-space frames.
func (p *Profile) modules() map[string]bool {
	out := map[string]bool{}
	for _, f := range p.frames {
		if f.Module != "" && !f.Kernel && len(out) < maxBinaries {
			out[f.Module] = true
		}
	}
	return out
}

// Modules returns the modules of user-space frames, sorted.
func (p *Profile) Modules() []string {
	return slices.Sorted(maps.Keys(p.modules()))
}

// named returns the modules with at least one named frame.
func (p *Profile) named() map[string]bool {
	out := map[string]bool{}
	for _, f := range p.frames {
		if f.Name != "" {
			out[f.Module] = true
		}
	}
	return out
}

// guesses returns the share of each module's weight, over all frames, that is
// too far into the function it is named after. If a module's file was available
// before but is not now, the remaining names were already judged with it.
func (p *Profile) guesses(at map[string]ELF) map[string]float64 {
	weights := p.frameWeights()
	far, all := map[string]float64{}, map[string]float64{}
	looked := map[string]bool{}
	for _, b := range p.Binaries {
		looked[b.Path] = b.Type != ""
	}
	for id, f := range p.frames {
		if f.Kernel || f.Name == "" {
			continue
		}
		all[f.Module] += weights[id]
		limit := uint64(tooFar)
		if file, ok := at[f.Module]; ok {
			if file.Type == TypeFull {
				continue
			}
			limit = max(file.Exports[f.Name], 1)
		} else if looked[f.Module] {
			continue
		}
		if uint64(p.offsets[id]) >= limit {
			far[f.Module] += weights[id]
		}
	}
	for module := range far {
		far[module] /= math.Max(all[module], 1)
	}
	return far
}

// frameWeights returns the weight of each frame's samples, counted once per
// occurrence in a stack.
func (p *Profile) frameWeights() []float64 {
	out := make([]float64, len(p.frames))
	for path, weight := range p.pathWeights() {
		if path > 0 {
			out[p.paths[path].frame] += float64(weight)
		}
	}
	return out
}

// pathWeights returns the weight of each path including its extensions.
func (p *Profile) pathWeights() []int64 {
	out := make([]int64, len(p.paths))
	for s := range p.Samples() {
		out[s.Stack] += s.Weight
	}
	for i := len(out) - 1; i > 0; i-- {
		out[p.paths[i].parent] += out[i] // a path is newer than its parent
	}
	return out
}

// vdso is kernel code mapped into every process. It has few functions, and the
// caller shows its purpose.
const vdso = "[vdso]"

// resolve computes the share of named frames, by binary and overall.
func (p *Profile) resolve() Trust {
	var named, user, total float64
	byModule := map[string][2]float64{} // the weight of names, and of all
	for s := range p.Samples() {
		w := float64(s.Weight)
		total += w
		if s.Stack == 0 {
			continue
		}
		f := p.frames[p.paths[s.Stack].frame]
		if f.Kernel || f.Module == vdso {
			continue
		}
		user += w
		m := byModule[f.Module]
		m[1] += w
		if f.Name != "" {
			m[0] += w
			named += w
		}
		byModule[f.Module] = m
	}
	for module, m := range byModule {
		if module == "" {
			continue
		}
		if b := p.Binary(module); b != nil {
			b.Weight, b.Resolved = int64(m[1]), m[0]/math.Max(m[1], 1)
		}
	}
	slices.SortStableFunc(p.Binaries, func(a, b Binary) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Path, b.Path))
	})
	t := Trust{User: 1, All: 1}
	if user > 0 {
		t.User = named / user
	}
	if total > 0 {
		t.All = (total - user + named) / total
	}
	t.Enough = t.User >= TrustedShare
	return t
}

// HowToName explains how to get a binary's names.
func HowToName(b Binary) string {
	name := path.Base(strings.TrimSuffix(b.Path, deleted))
	switch {
	case b.Doubt == DoubtBuild:
		return fmt.Sprintf("%s: put the file that ran, of build id %s, where the profile names it, "+
			"or read the profile on a machine that has it", b.Path, b.BuildID)
	case strings.HasSuffix(b.Path, deleted):
		return name + " was replaced while it ran: restart the program, or give perf the file that ran, " +
			"and take the profile again"
	}
	file := "its debug file"
	if b.BuildID != "" {
		file = "the debug file of build id " + b.BuildID
	}
	how := "Or build the program without -s and strip"
	switch {
	case strings.Contains(name, "envoy"):
		how = "Envoy has images with symbols, envoyproxy/envoy:debug-vVERSION, " +
			"and Istio offers the debug file of each build of its proxy beside the binary"
	case b.BuildID != "":
		how = "Where the distribution offers it, debuginfod-find debuginfo " + b.BuildID + " gets it. " + how
	}
	return fmt.Sprintf("%s has no names of functions; %s names them: meshtrial profile --debug FILE. %s", name, file, how)
}
