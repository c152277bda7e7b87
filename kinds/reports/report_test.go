package reports

import (
	"bytes"
	"encoding/csv"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

func render(t *testing.T, f record.Findings, format string, opt report.Options) string {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, kinds.Reports().Render(&b, f, format, opt))
	return b.String()
}

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		file, format string
		f            record.Findings
		opt          report.Options
	}{
		{"quick.txt", "text", reporttest.Quick(), report.Options{Width: 120}},
		{"quick-narrow.txt", "text", reporttest.Quick(), report.Options{Width: 60}},
		{"quick-color.txt", "text", reporttest.Quick(), report.Options{Width: 120, Color: true}},
		{"quick.md", "markdown", reporttest.Quick(), report.Options{}},
		{"quick.json", "json", reporttest.Quick(), report.Options{}},
		{"quick.csv", "csv", reporttest.Quick(), report.Options{}},
		{"quick.xml", "junit", reporttest.Quick(), report.Options{}},
		{"two-pod-latency.txt", "text", reporttest.TwoPod(), report.Options{Width: 140}},
		{"small-bill.txt", "text", reporttest.Bill(t), report.Options{Width: 140}},
		{"small-sized.txt", "text", sizedFindings(t), report.Options{Width: 180}},
		{"hostile.txt", "text", reporttest.Hostile(), report.Options{Width: 120}},
		{"hostile.md", "markdown", reporttest.Hostile(), report.Options{}},
		{"hostile.csv", "csv", reporttest.Hostile(), report.Options{}},
		{"control-plane-tuning.txt", "text", reporttest.Tuning(t), report.Options{Width: 150}},
		{"control-plane-tuning.md", "markdown", reporttest.Tuning(t), report.Options{}},
		{"control-plane-tuning.csv", "csv", reporttest.Tuning(t), report.Options{}},
		{"idle-sidecars.txt", "text", reporttest.IdleSidecars(t), report.Options{Width: 150}},
		{"control-plane-faults.txt", "text", reporttest.Faulty(t), report.Options{Width: 100}},
		{"ten-servers.txt", "text", reporttest.TenServers(t), report.Options{Width: 180}},
		{"ten-servers.xml", "junit", reporttest.TenServers(t), report.Options{}},
		{"ten-servers-inconclusive.txt", "text", reporttest.Inconclusive(t), report.Options{Width: 120}},
		{"ten-servers-inconclusive.xml", "junit", reporttest.Inconclusive(t), report.Options{}},
		{"one-istiod.txt", "text", reporttest.ControlPlane(t, "one-istiod", 2, nil), report.Options{Width: 120}},
	} {
		t.Run(c.file, func(t *testing.T) {
			got := render(t, c.f, c.format, c.opt)
			golden.File(t, filepath.Join("testdata", c.file), []byte(got))
		})
	}
}

func TestTextFitsItsWidth(t *testing.T) {
	for _, f := range []record.Findings{reporttest.Quick(), reporttest.TwoPod(), reporttest.Tuning(t), reporttest.Faulty(t)} {
		for _, width := range []int{70, 80, 100, 160} {
			for i, line := range strings.Split(render(t, f, "text", report.Options{Width: width}), "\n") {
				if n := len([]rune(line)); n > width {
					t.Errorf("%s at %d columns: line %d has %d: %s", f.Study, width, i+1, n, line)
				}
			}
		}
	}
}

func TestTextColorsAreTheOnlyEscapes(t *testing.T) {
	if s := render(t, reporttest.Hostile(), "text", report.Options{}); strings.ContainsAny(s, "\x1b\x07\x00\r\u202e\u2028") {
		t.Errorf("control characters reach the terminal:\n%q", s)
	}
	colored := render(t, reporttest.Hostile(), "text", report.Options{Color: true})
	for _, code := range []string{"\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[1m", "\x1b[0m"} {
		colored = strings.ReplaceAll(colored, code, "")
	}
	if strings.Contains(colored, "\x1b") {
		t.Error("a label's escape sequence reaches the terminal in colour mode")
	}
}

func TestMarkdownKeepsMarkupOut(t *testing.T) {
	s := render(t, reporttest.Hostile(), "markdown", report.Options{})
	body, study, found := strings.Cut(s, "````yaml\n")
	if !found {
		t.Fatal("the study's fence is not longer than the fence inside it")
	}
	if strings.Contains(body, "<") || strings.Contains(body, "\x1b") {
		t.Error("markup or an escape reaches Markdown")
	}
	if strings.Count(study, "````") != 1 || strings.Contains(study, "\x1b") {
		t.Error("the study breaks out of its fence")
	}
	columns := 0
	for _, line := range strings.Split(body, "\n") {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if columns != 0 && n != columns {
			t.Errorf("a label adds a column: %s", line)
		}
		columns = n
	}
}

func TestCSVIsTidyAndHarmless(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(render(t, reporttest.Hostile(), "csv", report.Options{}))).ReadAll()
	must.OK(t, err)
	if len(rows) < 50 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows {
		for _, field := range row {
			if field == "" {
				continue
			}
			if strings.ContainsRune("=+@|\t\r", rune(field[0])) || field[0] == '-' && strings.Trim(field, "-0123456789.e") != "" {
				t.Errorf("a spreadsheet would run %q", field)
			}
			if strings.Count(field, "")-1 > 12 && strings.Trim(field, "0123456789.-") == "" {
				t.Errorf("too many digits: %s", field)
			}
		}
	}
}

// TestNoFigures: without a figure or an interval none is shown, not zeros.
func TestNoFigures(t *testing.T) {
	f := reporttest.Quick()
	for i := range f.Findings {
		x := &f.Findings[i]
		*x = record.Finding{Name: x.Name, Probe: x.Probe, Cell: x.Cell, Against: x.Against, Unit: x.Unit, Blocks: 1, Verdict: record.VerdictInvalid}
	}
	for i := range f.Cells {
		for part := range f.Cells[i].CPUPerRequest {
			f.Cells[i].CPUPerRequest[part] = record.CPUPerRequest{UserUS: 60, SystemUS: 40, LowUS: 100, HighUS: 100}
		}
	}
	rows, err := csv.NewReader(strings.NewReader(render(t, f, "csv", report.Options{}))).ReadAll()
	must.OK(t, err)
	value, low, high := slices.Index(rows[0], "value"), slices.Index(rows[0], "low"), slices.Index(rows[0], "high")
	findings := 0
	for _, row := range rows {
		if row[2] == "finding" {
			findings++
			if row[value]+row[low]+row[high] != "" {
				t.Errorf("an invalid finding has figures: %q", row)
			}
		}
	}
	if findings != len(f.Findings) {
		t.Errorf("%d rows of findings, want %d", findings, len(f.Findings))
	}
	text := render(t, f, "text", report.Options{Width: 200})
	if !strings.Contains(text, "60 + 40") || !strings.Contains(text, "100 µs of CPU, 40% of it") || strings.Contains(text, "100–100") {
		t.Errorf("CPU of a single block:\n%s", text)
	}
}

func TestHTMLKeepsDataData(t *testing.T) {
	plain, bad := render(t, reporttest.Quick(), "html", report.Options{}), render(t, reporttest.Hostile(), "html", report.Options{})
	if a, b := strings.Count(plain, "<"), strings.Count(bad, "<"); a != b {
		t.Errorf("hostile findings change the page's markup: %d and %d '<'", a, b)
	}
	if strings.ContainsAny(bad, "\x1b\x07\u2028") {
		t.Error("control characters reach the page raw")
	}
}

// Extreme findings, from a run without cells, factors or valid trials, must render in every format.
func TestRendersWhatIsNotThere(t *testing.T) {
	invalid := reporttest.Quick()
	invalid.Validity = record.ValiditySummary{Trials: 8, Invalid: 8, Blocks: 2}
	invalid.Findings, invalid.NoiseFloor = nil, nil
	for i := range invalid.Cells {
		c := &invalid.Cells[i]
		*c = record.CellSummary{Cell: c.Cell, Label: c.Label, Baseline: c.Baseline, Trials: 2}
	}
	single := reporttest.Fixture("one", "", nil, 3)
	for _, f := range []record.Findings{{Kind: record.KindDataPlane}, invalid, single, {Kind: record.KindDataPlane, Findings: []record.Finding{{Name: "x", Verdict: "odd"}}, Validity: record.ValiditySummary{Trials: 1, Valid: 1}}} {
		for _, format := range report.Formats() {
			render(t, f, format, report.Options{})
		}
	}
}
