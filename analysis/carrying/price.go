package carrying

import (
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat/sizing"
	"github.com/meshtrial/meshtrial/study"
)

// price gives each way with known CPU and memory their combined cost, if the study has prices
// for both.
func (z *Ways) price(s *study.Study) {
	p := s.Money
	if p == nil || p.CoreMonth == 0 || p.GBMonth == 0 {
		return
	}
	for _, w := range z.All {
		cpu, hasCPU := w.by[record.SizedCPU]
		memory, hasMemory := w.by[record.SizedMemory]
		if hasCPU && hasMemory {
			w.by[record.SizedMonth] = sizing.Together(cpu, p.CoreMonth/p.Utilisation, memory, p.GBMonth/1e9)
		}
	}
}

// uses returns the resources by which to compare the ways. If some ways have a price, that
// comes first: where one way uses less CPU and another less memory, it says which is cheaper.
func (z *Ways) uses(s *study.Study) []Use {
	if !slices.ContainsFunc(z.All, func(w *Way) bool { _, ok := w.by[record.SizedMonth]; return ok }) {
		return Uses
	}
	return slices.Concat([]Use{{Of: record.SizedMonth, finding: study.FindingSizedMonth, total: s.MoneyUnit()}}, Uses)
}

// less says in a sentence that a mesh uses less of something.
func (u Use) less() string {
	if u.Of == record.SizedMonth {
		return "costs less"
	}
	return "takes less " + u.words
}

// comparisonNotes says by which uses the sentences compare ways, and at which prices; compared
// is their number.
func comparisonNotes(s *study.Study, uses []Use, compared int) (out []note.Note) {
	of := "CPU or memory"
	if m := s.Money; uses[0].Of == record.SizedMonth {
		of, out = "price, CPU or memory", []note.Note{NotePrice.Of(words.Grouped(m.CoreMonth), m.Currency, inUse(m.Utilisation), words.Grouped(m.GBMonth), m.Currency)}
	} else if lacks := lacking(s); lacks != "" {
		out = []note.Note{NoteUnpriced.Of(lacks)}
	}
	if compared > 1 {
		out = append(out, NoteOwnErrorRate.Of(of))
	}
	return out
}

// lacking returns what a study with a money section lacks to price both; "" if nothing.
func lacking(s *study.Study) string {
	m := s.Money
	switch {
	case m == nil:
		return ""
	case m.GBMonth == 0:
		return "section money has no gb_month"
	case m.CoreMonth == 0:
		return "section money has no core_month"
	case !s.Measured(study.MeasureMemory):
		return "the study does not measure memory"
	case !s.Measured(study.MeasureCPU):
		return "the study does not measure CPU"
	}
	return ""
}

// inUse returns the share of the paid cores that is in use; nil means all.
func inUse(share float64) any {
	if share >= 1 {
		return nil
	}
	return words.Percent(share)
}
