package assess

// Only is the assessment with the traffic or the limits alone, and what is unknown of them.
func (a Assessment) Only(section string) Assessment {
	out := Assessment{Schema: a.Schema, Source: a.Source, At: a.At, WindowS: a.WindowS, Mesh: a.Mesh, Signals: a.Signals, Settle: []Study{}, Unknown: []Unknown{}}
	switch section {
	case SectionTraffic:
		out.Traffic = a.Traffic
	case SectionLimits:
		out.Limits = a.Limits
	}
	for _, u := range a.Unknown {
		if u.concerns(section) || NotWatched.In([]Unknown{u}) {
			out.Unknown = append(out.Unknown, u)
		}
	}
	return out
}

// Lacks says what is unknown of a section, but for rules that are not decided: reports on limits
// have these themselves.
func (a Assessment) Lacks(section string) (out []string) {
	for _, u := range a.Unknown {
		if u.concerns(section) && !Undecided.In([]Unknown{u}) {
			out = append(out, u.What.String())
		}
	}
	return out
}

func (u Unknown) concerns(section string) bool {
	return u.Section == section || u.Section == SectionMesh || SomeProxies.In([]Unknown{u})
}
