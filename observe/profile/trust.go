package profile

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
)

// tooFar is how far into a function an address may lie, in bytes, before its
// name is taken for a guess. perf names an address after the function before
// it where the table of names has gaps; functions that large are not written.
const tooFar = 256 << 10

// guessedShare is the share of a binary's weight that must lie too far into
// functions before none of its names is believed.
const guessedShare = 0.02

// TrustedShare is the share of samples that must have a name before functions
// are shown; below it, modules and the kernel's functions are what a report
// can say.
const TrustedShare = 0.5

// Trust is how far a profile's names go.
type Trust struct {
	// User is the share of the weight of samples taken in user space whose
	// innermost frame has a name; All is that of all samples.
	User, All float64
	// Enough is whether User reaches [TrustedShare], or there is nothing to
	// name.
	Enough bool
}

// Distrust takes away the names that nobody should believe and returns what is
// left: it is [Profile.Judge] for good. Places of frames are forgotten, and
// frames without a name that follow each other in a module become one.
func (p *Profile) Distrust(at map[string]ELF) Trust {
	p.Judge(at)
	p.forget()
	return p.resolve()
}

// Judge takes away the names that nobody should believe and returns what is
// left. Frames keep their places, so that [Profile.Symbolise] may still name
// them. at are files at hand, by their path in the profile; a file whose build
// id is another than the profile's is not what ran, and gives no names.
//
// Names are taken from a binary that exports functions but has no table of
// all of them, where addresses lie beyond the end of the function that they
// are named after, or, with no file at hand, far into it.
func (p *Profile) Judge(at map[string]ELF) Trust {
	verdicts := map[string]string{} // by module: why no name is believed
	binaries, named := p.binaryIndex(), p.named()
	for module := range p.modules() {
		if file, ok := at[module]; ok {
			b := p.binaryAt(binaries, module)
			if b == nil {
				b = &Binary{} // one too many to be told
			}
			b.Type, b.Text = file.Type, file.Text
			switch {
			case b.BuildID != "" && file.BuildID != "" && !strings.HasPrefix(b.BuildID, file.BuildID) && !strings.HasPrefix(file.BuildID, b.BuildID):
				verdicts[module] = fmt.Sprintf(otherFile+" has build id %s, and what ran had %s: the binary was replaced", short(file.BuildID), short(b.BuildID))
			case b.BuildID == "":
				b.BuildID = file.BuildID
			}
		}
		if strings.HasSuffix(module, deleted) && verdicts[module] == "" && !named[module] {
			verdicts[module] = "the file was deleted or replaced while the program ran"
		}
	}
	for module, share := range p.guesses(at) {
		if share > guessedShare && verdicts[module] == "" {
			verdicts[module] = fmt.Sprintf("it has no table of its functions: %.0f%% of the time in it lies behind the end of the exported function that it is named after", 100*share)
		}
	}
	gone := make([]bool, len(p.frames))
	for id, f := range p.frames {
		if f.Name == "" || f.Kernel {
			continue
		}
		file, have := at[f.Module]
		switch {
		case verdicts[f.Module] != "" && strings.HasPrefix(verdicts[f.Module], "the file"):
			gone[id] = true
		case have && file.Type == TypeExports:
			size, exported := file.Exports[f.Name]
			gone[id] = !exported || uint64(p.offsets[id]) >= max(size, 1)
		case verdicts[f.Module] != "":
			gone[id] = true
		}
	}
	p.rewrite(func(id FrameID, f Frame) Frame {
		if gone[id] {
			f.Name, f.Inlined = "", false
		}
		return f
	}, false)
	for module, why := range verdicts {
		if b := p.binaryAt(binaries, module); b != nil {
			b.Why = why
		}
	}
	return p.resolve()
}

// otherFile begins the reason where a file is not the one that ran.
const otherFile = "the file at hand"

func short(id string) string { return id[:min(len(id), 12)] }

// modules are the modules of user space that frames lie in.
func (p *Profile) modules() map[string]bool {
	out := map[string]bool{}
	for _, f := range p.frames {
		if f.Module != "" && !f.Kernel && len(out) < maxBinaries {
			out[f.Module] = true
		}
	}
	return out
}

// Modules are the binaries of user space that frames lie in, in order.
func (p *Profile) Modules() []string {
	return slices.Sorted(maps.Keys(p.modules()))
}

// named are the modules that have a frame with a name.
func (p *Profile) named() map[string]bool {
	out := map[string]bool{}
	for _, f := range p.frames {
		if f.Name != "" {
			out[f.Module] = true
		}
	}
	return out
}

// guesses is the share of each module's weight, over all frames, that lies too
// far into the function it is named after. Of a module whose file was looked at
// before, and is not at hand now, the names left were found to be good.
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
			if file.Type == TypeFull || file.Type == TypeDebug || file.Type == TypeGo {
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

// frameWeights is the weight of each frame's samples, once for each time that
// it stands in a stack.
func (p *Profile) frameWeights() []float64 {
	out := make([]float64, len(p.frames))
	for path, weight := range p.pathWeights() {
		if path > 0 {
			out[p.paths[path].frame] += float64(weight)
		}
	}
	return out
}

// pathWeights is the weight of each path and all that continue it.
func (p *Profile) pathWeights() []int64 {
	out := make([]int64, len(p.paths))
	for s := range p.Samples() {
		out[s.Stack] += s.Weight
	}
	for i := len(out) - 1; i > 0; i-- {
		out[p.paths[i].parent] += out[i] // a path is younger than its parent
	}
	return out
}

// vdso is the kernel's code in every process: it has few functions, and who
// called it says what it is for.
const vdso = "[vdso]"

// resolve says how far names go, by binary and in all.
func (p *Profile) resolve() Trust {
	var named, user, total float64
	byModule := map[string]*[2]float64{}
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
		if m == nil {
			m = new([2]float64)
			byModule[f.Module] = m
		}
		m[1] += w
		if f.Name != "" {
			m[0] += w
			named += w
		}
	}
	binaries := p.binaryIndex()
	for module, m := range byModule {
		if module == "" {
			continue
		}
		if b := p.binaryAt(binaries, module); b != nil {
			b.Weight, b.Resolved = int64(m[1]), m[0]/math.Max(m[1], 1)
		}
	}
	slices.SortStableFunc(p.Binaries, func(a, b Binary) int {
		switch {
		case a.Weight != b.Weight && a.Weight > b.Weight:
			return -1
		case a.Weight != b.Weight:
			return 1
		}
		return strings.Compare(a.Path, b.Path)
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

// HowToName says how the names of a binary without them can be had.
func HowToName(b Binary) string {
	name := path.Base(strings.TrimSuffix(b.Path, deleted))
	if strings.HasPrefix(b.Why, otherFile) {
		return fmt.Sprintf("%s: put the file that ran, of build id %s, where the profile names it, or read the profile on a machine that has it", b.Path, b.BuildID)
	}
	if strings.HasSuffix(b.Path, deleted) {
		return fmt.Sprintf("%s was replaced while it ran: restart the program, or give perf the file that ran, and take the profile again", name)
	}
	file := "its debug file"
	if len(b.BuildID) > 2 {
		file = "the debug file of build id " + b.BuildID
	}
	how := file + " names them: meshtrial profile --debug FILE"
	switch {
	case strings.Contains(name, "envoy"):
		how += ". Envoy has images with symbols, envoyproxy/envoy:debug-vVERSION, and Istio offers the debug file of each build of its proxy beside the binary"
	case len(b.BuildID) > 2:
		how += ". Where the distribution offers it, debuginfod-find debuginfo " + b.BuildID + " gets it. Or build the program without -s and strip"
	default:
		how += ". Or build the program without -s and strip"
	}
	return fmt.Sprintf("%s has no names of functions; %s", name, how)
}
