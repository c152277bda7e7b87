package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/bench/internal/labs"
	"github.com/meshtrial/meshtrial/study"
)

// line is the result of a world.
type line struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"s"`
	World   string    `json:"world"`
	Planted string    `json:"planted"`
	// First is the rule of the first advice; "" if there is none.
	First      string  `json:"first"`
	Confidence float64 `json:"confidence"`
	// Failed says why there is no result.
	Failed string  `json:"failed,omitempty"`
	Effect *effect `json:"effect,omitempty"`
	// Runs lists the run directories that were kept because of an unexpected result.
	Runs []string `json:"runs,omitempty"`
}

// effect is the effect of applying the first advice.
type effect struct {
	Applied  string  `json:"applied"`
	ByHand   bool    `json:"by_hand,omitempty"`
	Quantity string  `json:"quantity"`
	Before   float64 `json:"before"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	After    float64 `json:"after"`
	Within   bool    `json:"within"`
	Failed   string  `json:"failed,omitempty"`
}

// Variants of the second study.
const (
	asPlanted = "planted"
	advised   = "advised"
)

// try runs a world: as planted, and again next to a cell with the advice applied. An error
// ends the bench.
func (w world) try(ctx context.Context, folder string) (l line, err error) {
	l = line{At: time.Now().UTC(), World: w.name, Planted: w.planted}
	defer func() { l.Seconds = time.Since(l.At).Seconds() }()
	reports, dir, failed, err := w.runs(ctx, folder, "1", w.study(nil))
	if err != nil {
		return l, err
	}
	if l.Failed = failed; failed != "" {
		l.Runs = append(l.Runs, dir)
		return l, nil
	}
	first := firstOf(reports)
	if first != nil {
		l.First, l.Confidence = first.Rule, first.Confidence
	}
	if l.First != w.planted {
		l.Runs = append(l.Runs, dir)
		return l, nil
	}
	if err := os.RemoveAll(dir); err != nil || first == nil {
		return l, err
	}
	l.Effect = w.applied(*first)
	if l.Effect.Failed != "" {
		return l, nil
	}
	reports, dir, failed, err = w.runs(ctx, folder, "2", w.study(w.with(*first)))
	if err != nil {
		return l, err
	}
	if l.Effect.Failed = failed; failed == "" {
		l.Effect.measure(w.planted, reports)
	}
	if !l.Effect.Within {
		l.Runs = append(l.Runs, dir)
		return l, nil
	}
	return l, os.RemoveAll(dir)
}

// firstOf returns the first advice of the first cell that has any.
func firstOf(reports []advice.Report) *advice.Judgement {
	for _, r := range reports {
		if len(r.Advice) > 0 {
			return &r.Advice[0]
		}
	}
	return nil
}

// lever returns the first step of an advice that sets a lever to a level, or nil.
func lever(j advice.Judgement) *advice.Step {
	i := slices.IndexFunc(j.Try, func(s advice.Step) bool {
		return s.Lever != "" && s.Level != "" &&
			len(s.Lacks) == 0
	})
	if i < 0 {
		return nil
	}
	return &j.Try[i]
}

// with returns the levels that follow the advice.
func (w world) with(j advice.Judgement) map[string]string {
	out := maps.Clone(w.byHand)
	if out == nil {
		out = map[string]string{}
		if s := lever(j); s != nil {
			out[s.Lever] = s.Level
		}
	}
	return out
}

// applied describes the levels that follow the advice.
func (w world) applied(j advice.Judgement) *effect {
	with := w.with(j)
	if len(with) == 0 {
		return &effect{Failed: "the advice sets no lever, and the world names nothing to do by hand"}
	}
	var parts []string
	for _, factor := range slices.Sorted(maps.Keys(with)) {
		parts = append(parts, factor+": "+with[factor])
	}
	return &effect{Applied: strings.Join(parts, ", "), ByHand: w.byHand != nil}
}

// measure compares what the advice promises for the cell as planted with what the other cell
// measured.
func (e *effect) measure(rule string, reports []advice.Report) {
	var promise *advice.Expected
	for _, r := range reports {
		if r.Cell[study.FactorVariant] != asPlanted {
			continue
		}
		for _, j := range r.Advice {
			if j.Rule == rule {
				promise = j.Expect
				if s := lever(j); s != nil && s.Expect != nil && !e.ByHand {
					promise = s.Expect
				}
			}
		}
	}
	if promise == nil {
		e.Failed = "the advice was not repeated for the planted cell"
		return
	}
	e.Quantity, e.Before, e.Low, e.High = promise.Quantity, promise.Now, promise.Low, promise.High
	for _, r := range reports {
		if r.Cell[study.FactorVariant] != advised {
			continue
		}
		for _, v := range r.Values {
			if v.Name == promise.Quantity {
				e.After = v.Value
				e.Within = v.Value >= promise.Low && v.Value <= promise.High
				return
			}
		}
	}
	e.Failed = promise.Quantity + " was not measured with the advice applied"
}

// study returns a study of one cell as planted, or of two, the second with the advised levels.
func (w world) study(with map[string]string) string {
	planted := maps.Clone(w.settings)
	maps.Copy(planted, w.limit)
	var b strings.Builder
	fmt.Fprintf(&b, "name: advice-%s\nquestion: Does the first advice name what is planted, and does it do what it"+
		" promises?\n", w.name)
	if w.control != nil {
		fmt.Fprintf(&b, "control: %s\n", inline(w.control))
	}
	b.WriteString(w.rest)
	same, differs := map[string]string{}, map[string]string{}
	for factor, level := range planted {
		if _, varies := with[factor]; varies {
			differs[factor] = level
		} else {
			same[factor] = level
		}
	}
	fmt.Fprintf(&b, "settings: %s\nvariants:\n  %s: %s\n", inline(same), asPlanted, inline(differs))
	if with != nil {
		fmt.Fprintf(&b, "  %s: %s\n", advised, inline(with))
	}
	b.WriteString("baseline: {}\nblocks: {min: 1, max: 1, limit: 10m}\n")
	return b.String()
}

// inline formats pairs as a YAML mapping on one line.
func inline(pairs map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		parts = append(parts, fmt.Sprintf("%s: %q", name, pairs[name]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// runs runs a study and asks for advice. failed says why there is none; an error ends the
// bench.
func (w world) runs(ctx context.Context, folder, part, text string) (reports []advice.Report, dir, failed string,
	err error) {
	file := filepath.Join(folder, "bench-advice-"+w.name+"-"+part+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, "", "", err
	}
	dir = filepath.Join(folder, fmt.Sprintf("advice-%s-%s-%s", w.name, part, time.Now().UTC().Format("150405")))
	// On a busy machine a trial may be invalid, and advice then doubts it.
	code, runErr := labs.Run(ctx, nil, "run", file, "--out", dir)
	if ctx.Err() != nil {
		return nil, dir, "", ctx.Err()
	}
	var out bytes.Buffer
	if _, err := labs.Run(ctx, &out, "assess", "limits", dir, "--json"); err != nil {
		return nil, dir, fmt.Sprintf("run: exit code %d (%v); advice: %v", code, runErr, err), ctx.Err()
	}
	var document struct {
		Reports []advice.Report `json:"reports"`
	}
	if err := json.Unmarshal(out.Bytes(), &document); err != nil {
		return nil, dir, fmt.Sprintf("advice: %v", err), nil
	}
	return document.Reports, dir, "", os.Remove(file)
}
