package advice

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/study"
)

// LeverList is what an istiod has of the levers of studies and advice.
type LeverList struct {
	Schema int         `json:"schema"`
	Istiod string      `json:"istiod"` // its version
	Source string      `json:"source"` // what was asked
	Levers []LeverLine `json:"levers"`
	// Others are the variables of istiod's environment that are no lever.
	Others []variables.Variable `json:"other_variables,omitempty"`
}

// LeverLine is one lever.
type LeverLine struct {
	Name string `json:"name"`
	// Sets names what it sets: variables of istiod's environment, fields of the mesh
	// configuration, or parts of objects.
	Sets []string `json:"sets"`
	// Default is istiod's value of a variable that is not set, Usual the level that studies
	// assume then; Help is istiod's own.
	Default string `json:"default,omitempty"`
	Usual   string `json:"usual,omitempty"`
	Help    string `json:"help,omitempty"`
	Doc     string `json:"doc"`
	// Lacks are the variables among Sets that this istiod does not have.
	Lacks []string `json:"lacks,omitempty"`
	// Studies are shipped studies that measure it, with its levels there; Rules the
	// rules that advise it.
	Studies []MeasuredBy `json:"studies,omitempty"`
	Rules   []string     `json:"rules,omitempty"`
}

// MeasuredBy is a study that sets a lever to several levels.
type MeasuredBy struct {
	Study  string   `json:"study"`
	Levels []string `json:"levels"`
}

// Levers lists the levers with what an istiod has of each, and the studies and rules that
// use it; others adds the variables of its environment that are no lever.
func Levers(known *variables.Known, shipped []*study.Study, others bool) LeverList {
	out := LeverList{Schema: 2, Istiod: known.Version, Source: known.Source, Levers: []LeverLine{}}
	used := map[string]bool{}
	for _, f := range study.Levers() {
		line := LeverLine{Name: f.Name, Usual: f.Usual, Doc: f.Doc, Sets: settingsOf(f), Rules: advisedBy(f)}
		if f.Lever.Env != "" {
			used[f.Lever.Env] = true
			if v, ok := known.Variable(f.Lever.Env); ok {
				line.Default, line.Help = v.Default, v.Help
			} else {
				line.Lacks = line.Sets
			}
		}
		for _, s := range shipped {
			if levels := levelsIn(s, f); len(levels) > 0 {
				line.Studies = append(line.Studies, MeasuredBy{s.Name, levels})
			}
		}
		out.Levers = append(out.Levers, line)
	}
	if others {
		out.Others = slices.DeleteFunc(slices.Clone(known.Variables),
			func(v variables.Variable) bool { return used[v.Name] })
	}
	return out
}

// settingsOf names what a lever sets: a variable of istiod's environment, fields of the
// mesh configuration, or parts of objects. All fields are in Istio 1.10 and later.
func settingsOf(f study.Factor) []string {
	switch {
	case f.Lever.Env != "":
		return []string{f.Lever.Env}
	case f.Lever.ProxyMetadata != "":
		return []string{"defaultConfig.proxyMetadata"}
	}
	switch f.Name {
	case study.FactorExportTo:
		return []string{"defaultServiceExportTo", "defaultVirtualServiceExportTo", "defaultDestinationRuleExportTo"}
	case study.FactorDiscoverySelectors:
		return []string{"discoverySelectors"}
	case study.FactorOutboundPolicy:
		return []string{"outboundTrafficPolicy"}
	case study.FactorIstiodReplicas:
		return []string{"Deployment spec.replicas"}
	case study.FactorConnectionAge:
		return []string{"Deployment args --" + f.Lever.Flag}
	case study.FactorIstiodCPU:
		return []string{"Deployment resources.limits.cpu"}
	case study.FactorIstiodMemory:
		return []string{"Deployment resources.limits.memory"}
	case study.FactorIstiodCPURequest:
		return []string{"Deployment resources.requests.cpu"}
	case study.FactorIstiodMemRequest:
		return []string{"Deployment resources.requests.memory"}
	case study.FactorIstiod:
		return []string{"Deployment image"}
	case study.FactorIstiodEnv:
		return []string{"any variable"}
	}
	return []string{"Sidecar"}
}

// levelsIn are the levels that a study sets a lever to, if it varies it.
func levelsIn(s *study.Study, f study.Factor) []string {
	var out []string
	add := func(level string) {
		if f.Sets(level) && !slices.Contains(out, level) {
			out = append(out, level)
		}
	}
	for _, v := range s.Factors {
		if v.Factor == f.Name {
			for _, level := range v.Levels {
				add(level)
			}
		}
	}
	ofVariants := map[string]bool{}
	for _, v := range s.Variants {
		ofVariants[v.Levels[f.Name]] = true
	}
	if len(ofVariants) > 1 {
		for _, v := range s.Variants {
			add(v.Levels[f.Name])
		}
	}
	return out
}

// WriteLevers writes a list for people.
func WriteLevers(w io.Writer, l LeverList) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Levers of istiod %s, asked: %s\n", l.Istiod, l.Source)
	for _, line := range l.Levers {
		fmt.Fprintf(&b, "\n%s\n", line.Name)
		text := strings.Join(line.Sets, ", ")
		switch {
		case len(line.Lacks) > 0:
			text += "; NOT HERE: this istiod has no " + strings.Join(line.Lacks, ", ")
		case line.Help != "":
			text += fmt.Sprintf("; default %q", line.Default)
		}
		fmt.Fprintf(&b, "%s\n", wrapped("  sets     ", text))
		if line.Help != "" {
			fmt.Fprintf(&b, "%s\n", wrapped("  istiod   ", line.Help))
		}
		fmt.Fprintf(&b, "%s\n", wrapped("  lever    ", line.Doc))
		for _, m := range line.Studies {
			fmt.Fprintf(&b, "%s\n", wrapped("  measured ", "meshtrial run "+m.Study+": "+strings.Join(m.Levels, ", ")))
		}
		if len(line.Studies) == 0 {
			fmt.Fprintf(&b, "  measured by no shipped study\n")
		}
		if len(line.Rules) > 0 {
			fmt.Fprintf(&b, "  advised by %s\n", strings.Join(line.Rules, ", "))
		}
	}
	if len(l.Others) > 0 {
		fmt.Fprintf(&b, "\nOther variables of its environment, which the lever istiod_env can set:\n")
	}
	for _, v := range l.Others {
		deprecated := ""
		if v.Deprecated {
			deprecated = ", deprecated"
		}
		fmt.Fprintf(&b, "%s\n", wrapped("  ", fmt.Sprintf("%s (%s, default %q%s): %s", v.Name, v.Type, v.Default,
			deprecated, v.Help)))
	}
	return writeClean(w, b.String())
}
