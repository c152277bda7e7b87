package analysis

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// CheckAssertions checks expressions before anything starts: syntax, types, names of fields, findings
// and factors. The error has the position and is a usage error (exit code 2).
//
// Assertions are expressions in CEL (the Common Expression Language, as in Kubernetes) that state
// what must be true of the findings:
//
//	finding("latency_p50_overhead", {"sidecars": "both"}).high < 1000.0
//	finding("cpu_client_proxy_per_request", {"sidecars": "both"}).estimate < 150
//	findings.filter(f, f.name == "latency_p99_overhead").all(f, f.verdict != "invalid")
//	validity.invalid == 0
//
// finding(name, cell) is the only finding of that name whose cell has the given levels; levels that
// are not given may have any value. It is an error if there is none or several. A finding has the
// fields of the JSON document: estimate, low, high, unit, blocks, verdict, cell, against, relative,
// minimum_detectable_effect, warnings. A value that a finding does not have, such as any of an
// invalid finding or the upper end of an open-ended search, is an error, never zero. findings
// contains all findings, validity the counts of trials.
func CheckAssertions(exprs []study.Expr) error {
	env, err := newEnv(nil)
	for _, e := range exprs {
		if err == nil {
			_, err = compile(env, e)
		}
	}
	return err
}

// JudgeAssertions evaluates assertions over findings. An assertion that cannot be evaluated, because
// a finding is missing or invalid, has not passed; its detail says why.
func JudgeAssertions(exprs []study.Expr, f record.Findings) []record.Assertion {
	out := make([]record.Assertion, len(exprs))
	for i, e := range exprs {
		passed, used, err := evaluate(e, f)
		var details []string
		for _, u := range used {
			if details = append(details, describe(u)); u.Verdict == record.VerdictInvalid {
				err = errInvalid(u)
				break
			}
		}
		out[i] = record.Assertion{Expr: e.Text, Passed: passed && err == nil, Detail: cmp.Or(strings.Join(details, "; "), fmt.Sprint(passed))}
		if err != nil {
			out[i].Detail = err.Error()
		}
	}
	return out
}

// evaluate returns the value of an expression, and the findings that it names.
func evaluate(e study.Expr, f record.Findings) (passed bool, used []record.Finding, err error) {
	env, err := newEnv(func(name string, cell record.Cell) (record.Finding, error) {
		found, err := findOne(f, name, cell)
		if err == nil {
			used = append(used, found)
		}
		return found, err
	})
	if err != nil {
		return false, nil, err
	}
	ast, err := compile(env, e)
	if err != nil {
		return false, nil, err
	}
	program, err := env.Program(ast, cel.CostLimit(10_000_000))
	if err != nil {
		return false, nil, err
	}
	value, _, err := program.Eval(map[string]any{"findings": findingValues(env.CELTypeAdapter(), f.Findings), "validity": f.Validity})
	if err != nil {
		return false, used, err
	}
	passed, ok := value.Value().(bool)
	if !ok {
		return false, used, fmt.Errorf("the expression gave %v, not true or false", value.Value())
	}
	return passed, used, nil
}

// describe formats a finding in one line: name, cell, figures, verdict.
func describe(f record.Finding) string {
	if f.Verdict == record.VerdictInvalid {
		return fmt.Sprintf("%s at %s", f.Name, cellWords(f.Cell))
	}
	verdict := strings.ReplaceAll(f.Verdict, "_", " ")
	if reach := f.Reach(words.Quantity(f.Low, f.Unit), words.Quantity(f.High, f.Unit)); reach != "" {
		return fmt.Sprintf("%s at %s is %s, %s", f.Name, cellWords(f.Cell), reach, verdict)
	}
	return fmt.Sprintf("%s at %s is %s (%s to %s), %s", f.Name, cellWords(f.Cell),
		words.Quantity(f.Estimate, f.Unit), words.Quantity(f.Low, f.Unit), words.Quantity(f.High, f.Unit), verdict)
}

func cellWords(c record.Cell) string {
	if len(c) == 0 {
		return "the only cell"
	}
	return strings.ReplaceAll(strings.ReplaceAll(c.Key(), "=", " "), ",", ", ")
}

// findOne returns the finding of a name in the only cell that has the given levels.
func findOne(f record.Findings, name string, cell record.Cell) (record.Finding, error) {
	var found []record.Finding
	names := map[string]bool{}
	for _, x := range f.Findings {
		names[x.Name] = true
		if x.Name == name && x.Cell.Has(cell) {
			found = append(found, x)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return record.Finding{}, fmt.Errorf("%d cells have a finding %s with %s; name more factors, or use findings.filter", len(found), name, cellWords(cell))
	case !names[name]:
		return record.Finding{}, fmt.Errorf("this run has no finding %s", name)
	}
	return record.Finding{}, fmt.Errorf("no cell with %s has a finding %s; factors that vary are %s", cellWords(cell), name, factorWords(f))
}

func factorWords(f record.Findings) string {
	var out []string
	for _, x := range f.Factors {
		out = append(out, x.Factor)
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

// compile checks one expression; its error has the position.
func compile(env *cel.Env, e study.Expr) (*cel.Ast, error) {
	ast, issues := env.Compile(e.Text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		msg, hint := explain(first.Message)
		return nil, FaultAt(e, first.Location.Line(), first.Location.Column(), hint, "assertion: %s", msg)
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, FaultAt(e, 1, 0, "compare it with something, as in ... < 1000", "assertion: the expression is %s, not true or false", WithArticle(t.String()))
	}
	return ast, checkNames(ast, e)
}

// WithArticle puts "a" or "an" before the name of a type.
func WithArticle(name string) string {
	if name != "uint" && strings.ContainsAny(name[:min(1, len(name))], "aeiou") {
		return "an " + name
	}
	return "a " + name
}

// explain rewords CEL's most common complaints.
func explain(message string) (msg, hint string) {
	switch {
	case strings.Contains(message, "found no matching overload for '_"):
		return message, "numbers that are calculated with must be of one kind: write 2.0 beside an estimate, not 2"
	case strings.Contains(message, "undefined field"):
		return message, "fields of a finding: " + strings.Join(findingFields(), ", ")
	case strings.Contains(message, "undeclared reference"):
		return message, "known are finding(name, cell), findings and validity"
	}
	return message, ""
}

// FaultAt returns an error at a position inside an expression: line from 1, column from 0. If the
// expression is on a single line of a file, the error gives the position in the file.
func FaultAt(e study.Expr, line, column int, hint, format string, args ...any) error {
	pos := e.Pos
	if pos.Line > 0 && line == 1 && pos.Column > 0 {
		text := []rune(pos.Text)
		from := min(pos.Column-1, len(text))
		if at := strings.Index(string(text[from:]), e.Text); at >= 0 {
			pos.Column = from + len([]rune(string(text[from:])[:at])) + column + 1
			return pos.Errorf(hint, format, args...)
		}
	}
	msg := fmt.Sprintf(format, args...)
	if line > 1 {
		msg += fmt.Sprintf(" (line %d of the expression, character %d)", line, column+1)
	} else {
		msg += fmt.Sprintf(" (character %d of the expression)", column+1)
	}
	if pos.Line == 0 { // comes from a flag
		pos.File = strings.TrimSpace(pos.File + " " + shorten(strings.Join(strings.Fields(e.Text), " ")))
	}
	return pos.Errorf(hint, "%s", msg)
}

// shorten limits how much of an expression a message shows.
func shorten(s string) string {
	const most = 120
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}
