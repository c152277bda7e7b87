package findings

import (
	"encoding/json"
	"io"
	"regexp"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

// Limits on the bytes read of a run's profiles.
const (
	maxProfileFile = 256 << 20
	maxFilterFile  = 64 << 20
)

// leastCentre is the share of CPU time from which a cost centre is a finding.
const leastCentre = 0.005

// profiled holds a cell's profiles of one part, one per block.
type profiled struct {
	part     string
	profiles []*profile.Profile
	filters  []profile.ConfigFilter
	trials   []*record.Trial
	of       []record.Profiled
}

// profiles reads the profiles of each proxy in the valid trials of a cell. Profiles that cannot be
// read yield a warning.
func profiles(o *analysis.Observations, cell int) (out []profiled, warnings []note.Note) {
	if !o.Plan.Study.Measured(study.MeasureProfile) {
		return nil, nil
	}
	for _, part := range study.ProxyParts {
		all := profiled{part: part}
		for _, t := range o.Valid(cell) {
			for _, p := range t.Profiles {
				if p.Part != part {
					continue
				}
				all.trials, all.of = append(all.trials, t), append(all.of, p)
				if p.File == "" || o.Run.Profile == nil {
					continue
				}
				read, err := readProfile(o.Run, p.File)
				if err != nil {
					warnings = append(warnings, noteUnreadProfile.Of(t.ID, err))
					continue
				}
				all.profiles = append(all.profiles, read)
				if filters, err := readFilters(o.Run, p.Filters); err == nil && all.filters == nil {
					all.filters = filters
				}
			}
		}
		if len(all.of) > 0 {
			out = append(out, all)
		}
	}
	return out, warnings
}

func readProfile(run record.Run, file string) (*profile.Profile, error) {
	in, err := run.Profile(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	p, err := profile.ReadPprof(io.LimitReader(in, maxProfileFile))
	if err != nil {
		return nil, err
	}
	p.Distrust(nil) // names were judged with the binaries at hand
	return p, nil
}

func readFilters(run record.Run, file string) (filters []profile.ConfigFilter, err error) {
	if file == "" {
		return nil, nil
	}
	in, err := run.Profile(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return filters, json.NewDecoder(io.LimitReader(in, maxFilterFile)).Decode(&filters)
}

// addProfiles adds each cost centre's share of a proxy's CPU time, the share of named samples, the
// cost of profiling itself, and the data for the page's charts.
func addProfiles(o *analysis.Observations, f *record.Findings) {
	costs := told{o: o}
	for cell := range o.Plan.Cells {
		all, unread := profiles(o, cell)
		f.Warnings = append(f.Warnings, unread...)
		for _, one := range all {
			profileCost(&costs, cell, one)
			if len(one.profiles) == 0 {
				continue
			}
			title := strings.ReplaceAll(one.part, "_", " ")
			if label := o.Plan.Label(o.Plan.Cells[cell]); label != "" {
				title += ", " + label
			}
			summary, view := profile.Summarise(title, one.profiles, one.filters, 0)
			if data, err := json.Marshal(view); err == nil {
				f.Profiles = append(f.Profiles, data)
			}
			if summary.TooFew {
				f.Warnings = append(f.Warnings, noteThinProfile.Of(title, profile.Few(summary.Samples)))
				continue
			}
			add := func(name string, share, low, high float64, blocks int) *record.Finding {
				x := o.Named(name, o.Short(cell))
				x.Estimate, x.Low, x.High, x.Blocks, x.Verdict = share, low, high, blocks, record.VerdictMeasured
				f.Findings = append(f.Findings, x)
				return &f.Findings[len(f.Findings)-1]
			}
			add(dataplane.FindingProfileNamed+"_"+one.part, summary.Trust, summary.Trust, summary.Trust, len(one.profiles))
			for _, c := range summary.Costs.Centres {
				if c.Share < leastCentre || c.Low <= 0 || !profile.Tells(c.Weight, summary.Costs.Total, summary.Samples) {
					continue
				}
				centre := add(dataplane.FindingCentre+"_"+one.part+"_"+slug(c.Group+" "+c.Name), c.Share, c.Low, c.High, summary.Costs.Blocks)
				if summary.Samples < fewSamples {
					centre.Warnings = append(centre.Warnings, noteFewSamples.Of(summary.Samples))
				}
			}
		}
	}
	f.Findings = append(f.Findings, costs.judge()...)
}

// fewSamples is the number of samples below which shares get a warning.
const fewSamples = 200

// reSlug matches the characters of a cost centre's name that finding names do not allow.
var reSlug = regexp.MustCompile(`[^a-z0-9]+`)

func slug(s string) string {
	return strings.Trim(reSlug.ReplaceAllString(strings.ToLower(s), "_"), "_")
}

// profileCost adds how much more CPU a proxy used while profiled than in its trial's window, at the
// same fixed rate, if that is known. Both come from the same pods, whose variation therefore
// cancels.
func profileCost(all *told, cell int, one profiled) {
	var ratios []float64
	for i, t := range one.trials {
		cpu, ok := t.CPU[one.part]
		p := one.of[i]
		if !ok || p.CPU == nil || p.CPUSeconds <= 0 || t.Window.Seconds <= 0 || t.Load == nil || t.Load.Rate.RPS() <= 0 {
			continue
		}
		if before := cpu.TotalS() / t.Window.Seconds; before > 0 {
			ratios = append(ratios, p.CPU.TotalS()/p.CPUSeconds/before-1)
		}
	}
	if len(ratios) == 0 {
		return
	}
	d := analysis.Difference{Estimate: stat.Mean(ratios, stat.Options{Say: words.Percent}), Say: words.Percent}
	f := all.o.Named(dataplane.FindingProfileCost+"_"+one.part, all.o.Short(cell))
	if f.Blocks = d.Blocks; d.Defined() && d.Blocks >= analysis.MinBlocks {
		f = d.Put(f, 0)
	} else { // no interval means no number
		f.Warnings = d.Warnings
		f = analysis.Invalid(f, d.Blocks)
	}
	all.add(f, d, analysis.Measure{}, 1)
}
