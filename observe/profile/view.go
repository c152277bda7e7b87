package profile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/meshtrial/meshtrial/internal/note"
)

// View is a profile as the page draws it: distinct paths, and weights by thread
// and path. The page builds trees from it for all threads, for one thread, or
// for the kernel. Lists are columnar because there may be thousands of rows.
type View struct {
	Title   string `json:"title"`
	Kind    string `json:"kind"`
	Unit    string `json:"unit"`
	Total   int64  `json:"total"`
	Samples int64  `json:"samples"`
	// Names has the names of frames; Modules is indexed by FrameModule.
	Names   []string `json:"names"`
	Modules []string `json:"modules"`
	// FrameName, FrameModule and FrameFlags are indexed by frame. Flags are 1
	// for the kernel, 2 for inlined, 4 for a module in place of a name.
	FrameName   []int `json:"frame_name"`
	FrameModule []int `json:"frame_module"`
	FrameFlags  []int `json:"frame_flags"`
	// Parent and Frame are indexed by path; path 0 is the root, and callers
	// precede callees.
	Parent  []int    `json:"parent"`
	Frame   []int    `json:"frame"`
	Threads []string `json:"threads"`
	// SampleThread, SamplePath and SampleWeight have one entry per thread and
	// path.
	SampleThread []int   `json:"sample_thread"`
	SamplePath   []int   `json:"sample_path"`
	SampleWeight []int64 `json:"sample_weight"`
	// Folded is the weight that was added to callers because paths were too
	// thin to draw.
	Folded int64 `json:"folded,omitempty"`

	Trust  float64  `json:"trust"`  // share of user-space samples with a name
	Enough bool     `json:"enough"` // whether there are enough names to show functions
	Advice []string `json:"advice,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	Costs  *Costs   `json:"costs,omitempty"`
	// Against is the difference to another profile, by path.
	Against *ViewDiff `json:"against,omitempty"`

	index viewIndex
}

// ViewDiff is a difference by path of the view. Deltas are differences of
// shares.
type ViewDiff struct {
	Title       string    `json:"title"`
	Method      string    `json:"method"`
	Before      DiffSide  `json:"before"`
	After       DiffSide  `json:"after"`
	Path        []int     `json:"path"`
	BeforeShare []float64 `json:"before_share"`
	AfterShare  []float64 `json:"after_share"`
	Low         []float64 `json:"low"`
	High        []float64 `json:"high"`
	Warnings    []string  `json:"warnings,omitempty"`
}

// Flags of frames in a [View].
const (
	flagKernel = 1 << iota
	flagInlined
	flagModule
)

// thin is the share below which a path is merged into its caller: less than
// half a pixel of a wide picture.
const thin = 0.0002

// NewView returns the view of a profile after [Profile.Distrust].
func NewView(p *Profile, title string, trust Trust) View {
	v := View{Title: title, Kind: p.Kind, Unit: p.Unit, Total: p.Total(), Samples: p.Taken(),
		Trust: trust.User, Enough: trust.Enough, Notes: p.Notes, Parent: []int{-1}, Frame: []int{-1},
		index: viewIndex{map[string]int{}, map[string]int{}, map[Frame]int{}, map[[2]int]int{{-1, -1}: 0}}}
	weights := p.pathWeights()
	least := int64(thin * float64(weights[0]))
	to := make([]int, len(p.paths))
	for i := 1; i < len(p.paths); i++ {
		parent := to[p.paths[i].parent]
		if weights[i] <= least {
			to[i] = parent
			continue
		}
		to[i] = v.path(parent, p.frames[p.paths[i].frame])
	}
	type key struct {
		thread string
		path   int
	}
	sums := map[key]int64{}
	for s := range p.Samples() {
		sums[key{p.threads[s.Thread].Name, to[s.Stack]}] += s.Weight
		if weights[s.Stack] <= least {
			v.Folded += s.Weight
		}
	}
	threads := map[string]int{}
	for _, t := range p.ByThread() {
		threads[t.Name] = len(v.Threads)
		v.Threads = append(v.Threads, t.Name)
	}
	for _, k := range slices.SortedFunc(maps.Keys(sums), func(a, b key) int {
		return cmp.Or(cmp.Compare(threads[a.thread], threads[b.thread]), cmp.Compare(a.path, b.path))
	}) {
		v.SampleThread = append(v.SampleThread, threads[k.thread])
		v.SamplePath = append(v.SamplePath, k.path)
		v.SampleWeight = append(v.SampleWeight, sums[k])
	}
	for _, binary := range p.Binaries {
		if float64(binary.Weight) >= 0.005*float64(v.Total) && binary.Weight > 0 && binary.Resolved < TrustedShare {
			v.Advice = append(v.Advice, HowToName(binary))
		}
	}
	return v
}

// AddDiff adds a difference, including the paths that vanished.
func (v *View) AddDiff(d Diff, title string) {
	out := &ViewDiff{Title: title, Method: d.Method, Before: d.Before, After: d.After, Warnings: note.Texts(d.Warnings)}
	paths := slices.Clone(d.Paths)
	slices.SortFunc(paths, func(a, b DiffPath) int { return cmp.Compare(a.stack, b.stack) })
	for _, one := range paths {
		at := 0
		for _, f := range one.Frames {
			at = v.path(at, f)
		}
		out.Path = append(out.Path, at)
		out.BeforeShare, out.AfterShare = append(out.BeforeShare, one.Before), append(out.AfterShare, one.After)
		out.Low, out.High = append(out.Low, one.Low), append(out.High, one.High)
	}
	v.Against = out
}

// viewIndex has the indexes of distinct names, modules, frames and paths.
type viewIndex struct {
	names, modules map[string]int
	frames         map[Frame]int
	paths          map[[2]int]int // by parent and frame
}

// number returns the index of a value in the order of their first uses; fresh says that it is new.
func number[T comparable](known map[T]int, v T) (i int, fresh bool) {
	i, ok := known[v]
	if !ok {
		i = len(known)
		known[v] = i
	}
	return i, !ok
}

func intern(known map[string]int, list *[]string, s string) int {
	i, fresh := number(known, s)
	if fresh {
		*list = append(*list, s)
	}
	return i
}

// path returns the index of a path, adding it if necessary.
func (v *View) path(parent int, f Frame) int {
	frame, fresh := number(v.index.frames, f)
	if fresh {
		flags := 0
		if f.Kernel {
			flags |= flagKernel
		}
		if f.Inlined {
			flags |= flagInlined
		}
		if f.Name == "" {
			flags |= flagModule
		}
		v.FrameName = append(v.FrameName, intern(v.index.names, &v.Names, f.Label()))
		v.FrameModule = append(v.FrameModule, intern(v.index.modules, &v.Modules, f.Module))
		v.FrameFlags = append(v.FrameFlags, flags)
	}
	path, fresh := number(v.index.paths, [2]int{parent, frame})
	if fresh {
		v.Parent, v.Frame = append(v.Parent, parent), append(v.Frame, frame)
	}
	return path
}
