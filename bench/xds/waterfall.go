package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
)

// waterfall reads how well the stages of a run's cells add up to what its
// sidecars measured.
func waterfall(_ context.Context, o *options) ([]table.Row, error) {
	if o.run == "" {
		return nil, errors.New("the part waterfall reads a run of a study of the control plane: name its directory with -run")
	}
	var f record.Findings
	data, err := os.ReadFile(filepath.Join(o.run, store.FileFindings))
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		return nil, err
	}
	var rows []table.Row
	for _, c := range f.Cells {
		if c.Control == nil || len(c.Control.Stages) == 0 {
			continue
		}
		mean := c.Control.MeanUS / 1e3
		rows = append(rows, table.Of(fmt.Sprintf("%s, %s: residual of %s ms", f.Study, c.Label, table.Number(mean)), "ms", math.Abs(c.Control.ResidualUS)/1e3).
			AtMost(math.Round(record.MaxResidualUS(c.Control.MeanUS)/10)/100))
	}
	if rows == nil {
		return nil, fmt.Errorf("%s has no waterfalls", o.run)
	}
	return rows, nil
}
