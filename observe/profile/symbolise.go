package profile

import "slices"

// Unnamed are the binaries of user space in which frames have a place and no
// name, those that cost most first, and the weight of samples with such a
// frame innermost.
func (p *Profile) Unnamed() []Binary {
	weights := map[string]int64{}
	for s := range p.Samples() {
		if s.Stack == 0 {
			continue
		}
		if f := p.frames[p.paths[s.Stack].frame]; f.Name == "" && f.Offset != 0 {
			weights[f.Module] = plus(weights[f.Module], s.Weight)
		}
	}
	for _, f := range p.frames {
		if f.Name == "" && f.Offset != 0 {
			weights[f.Module] += 0 // callers alone
		}
	}
	var out []Binary
	for _, b := range p.Binaries {
		if weight, ok := weights[b.Path]; ok {
			b.Weight = weight
			out = append(out, b)
		}
	}
	slices.SortStableFunc(out, func(a, b Binary) int { return int(max(-1, min(1, b.Weight-a.Weight))) })
	return out
}

// Symbolise names the frames of a binary that have a place and no name, by the
// symbols of its file or of its debug file, and returns how many it named. It
// believes that the symbols are of what ran: callers compare build ids. Where
// the code lay in the binary is known from the profile, or from the file
// itself; with neither, no name is given.
func (p *Profile) Symbolise(path string, s *Symbols) int {
	b := p.Binary(path)
	text := b.Text
	if text == (Segment{}) {
		text = s.Text
	}
	named := 0
	names := make([]string, len(p.frames))
	for id, f := range p.frames {
		if f.Module != path || f.Name != "" || f.Offset == 0 {
			continue
		}
		if address, ok := text.linked(f.Offset); ok {
			if name, ok := s.Find(address); ok {
				names[id] = name
				named++
			}
		}
	}
	if named == 0 {
		return 0
	}
	b.Type, b.Why = s.Type, ""
	if s.Type == TypeFull {
		b.Type = TypeDebug
	}
	p.rewrite(func(id FrameID, f Frame) Frame {
		if names[id] != "" {
			f.Name, f.Offset = names[id], 0
		}
		return f
	}, false)
	return named
}

// forget drops the places of frames: those without names that follow each
// other in a module become one.
func (p *Profile) forget() {
	p.rewrite(func(_ FrameID, f Frame) Frame {
		f.Offset = 0
		return f
	}, true)
}

// rewrite replaces frames, and the paths that go through them; with join,
// frames without names that follow each other in a module become one.
func (p *Profile) rewrite(to func(FrameID, Frame) Frame, join bool) {
	changed := false
	frameTo := make([]FrameID, len(p.frames))
	for id := range frameTo {
		before := p.frames[id]
		frameTo[id] = FrameID(id)
		if after := to(FrameID(id), before); after != before {
			frameTo[id] = p.Frame(after)
			p.offsets[frameTo[id]] = max(p.offsets[frameTo[id]], p.offsets[id])
			changed = true
		}
		changed = changed || join && before.Name == ""
	}
	if !changed {
		return
	}
	stackTo := make([]StackID, len(p.paths))
	old := p.paths
	p.paths, p.pathIndex = make([]step, 1, len(old)), map[step]StackID{}
	for i := 1; i < len(old); i++ {
		parent, frame := stackTo[old[i].parent], frameTo[old[i].frame]
		if join && parent != 0 && p.paths[parent].frame == frame && p.frames[frame].Name == "" {
			stackTo[i] = parent
			continue
		}
		stackTo[i], _ = p.Push(parent, frame)
	}
	clear(p.alike)
	for n, chunk := range p.chunks {
		for i := range chunk {
			chunk[i].Stack = stackTo[chunk[i].Stack]
			if chunk[i].TimeNS == NoTime {
				p.alike[stackThread{chunk[i].Stack, chunk[i].Thread}] = place{uint32(n), uint32(i)}
			}
		}
	}
}
