package study

// places records where the file names each factor.
func (d *Decoder) places() map[string]Pos {
	out := map[string]Pos{}
	sections := []*Node{d.Root.Get("factors"), d.Root.Get("settings")}
	if variants := d.Root.Get("variants"); variants != nil {
		sections = append(sections, variants.Values...)
	}
	for _, section := range sections {
		if section == nil {
			continue
		}
		for i, k := range section.Keys {
			if _, ok := out[k.Name]; !ok {
				out[k.Name] = section.Values[i].Pos
			}
		}
	}
	if section := d.kind.spec().Section; d.Root.Get(section) != nil {
		out[section] = d.Root.Get(section).Pos
	}
	return out
}

// Place returns the position of the first of these factors that the study's file mentions, for
// errors found only when a cell is applied. If it mentions none of them, Place returns the section
// that determines the study's kind.
func (s *Study) Place(factors ...string) Pos {
	for _, name := range append(factors, s.Kind.spec().Section) {
		if p, ok := s.places[name]; ok {
			return p
		}
	}
	return Pos{File: "study " + s.Name}
}

// levelsAt records where settings and factors give factors levels. For a study whose run has begun
// it records flags only.
func (d *Decoder) levelsAt() map[string]Pos {
	out := map[string]Pos{}
	for _, section := range []*Node{d.Root.Get("settings"), d.Root.Get("factors")} {
		if section == nil {
			continue
		}
		for i, k := range section.Keys {
			if pos := section.Values[i].Pos; pos.flag() || !d.begun {
				out[k.Name] = pos
			}
		}
	}
	return out
}

// setBy returns the --set flag that gives a factor its levels, if there is one.
func (s *Study) setBy(factor string) (Pos, bool) {
	p, ok := s.places[factor]
	return p, ok && p.flag()
}
