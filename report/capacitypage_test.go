package report

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
)

// The page has a mark for each point, where it belongs, and nothing of a name is
// taken for markup; each picture is XML.
func TestCapacityPage(t *testing.T) {
	cell := func(measured, predicted, low, high float64) model.Cell {
		return model.Cell{Proxies: 300, Services: 50, Rate: 2, Outputs: []model.Against{
			{Output: model.OutCPU, Unit: "cores", Measured: measured, Predicted: predicted, Low: low, High: high},
			{Output: model.OutBytes, Unit: "bytes/s", Measured: 1e6 * measured, Predicted: 1e6 * predicted},
			{Output: model.OutMemory, Unit: "bytes", Measured: 0, Predicted: 1e9}}}
	}
	published := model.Published{Source: "<script>alert(1)</script>", Claim: "all", Output: model.OutMemory, Unit: "bytes", Figure: 1.5e9, Mesh: model.Mesh{Proxies: 2000},
		Model: model.Interval{Estimate: 1e9, Low: 5e8, High: 3e9}}
	var b strings.Builder
	err := RenderCapacityPage(&b, CapacityPage{Title: "A <b>model</b>", Cells: []model.Cell{cell(0.5, 0.6, 0, 0), cell(1, 0.9, 0, 0)},
		HeldOut: []model.Cell{cell(2, 1, 0.5, 3)}, Published: []model.Published{published}, Notes: []model.Note{{Code: model.NoteMachines, Machines: []string{"1 < 2"}}}})
	if err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for what, want := range map[string]int{"<svg ": 4, `<g class="cell">`: 4, `class="heldout"><title>300`: 2, `class="published"`: 2, `class="interval"`: 3, "held out 50.0%": 2, "median error: cells 15.0%": 2, "1 &lt; 2": 1, "<script": 0, "<b>model": 0, "NaN": 0, "1 of 1 measured points": 1} {
		if got := strings.Count(page, what); got != want {
			t.Errorf("%q is there %d times, want %d", what, got, want)
		}
	}
	for _, part := range strings.Split(page, "<svg")[1:] {
		svg := "<svg" + part[:strings.Index(part, "</svg>")+6]
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
		}
	}
}
