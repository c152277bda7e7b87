package assess

// TrafficAlone is what is known, and what is not, of the traffic and of istiod's signals.
func (a Assessment) TrafficAlone() Assessment {
	out := Assessment{Schema: a.Schema, Source: a.Source, At: a.At, WindowS: a.WindowS, Mesh: a.Mesh, Traffic: a.Traffic, Signals: a.Signals,
		Settle: []Study{}, Unknown: []Unknown{}}
	out.Mesh.Objects, out.Mesh.Settings = nil, nil
	for _, u := range a.Unknown {
		if u.concerns(SectionTraffic) || NotWatched.In([]Unknown{u}) || NoPage.In([]Unknown{u}) {
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
