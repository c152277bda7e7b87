package analysis_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/studytest"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/studies"
)

type worldX struct {
	analysistest.Machine
	redeploy int
	requests int
}

var worldsX = []worldX{
	{analysistest.Machine{Name: "quiet", Trial: 0.03}, 1, 800},
	{analysistest.Machine{Name: "pods 2%", Trial: 0.03, Pod: 0.02}, 1, 800},
	{analysistest.Machine{Name: "pods 5%", Trial: 0.03, Pod: 0.05}, 1, 800},
	{analysistest.Machine{Name: "pods 5%, kept", Trial: 0.03, Pod: 0.05}, 0, 800},
	{analysistest.Machine{Name: "run drift 10%", Trial: 0.03, Ramp: 0.1}, 1, 800},
	{analysistest.Machine{Name: "block drift 6%", Trial: 0.03, Within: 0.06}, 1, 800},
	{analysistest.Machine{Name: "AR 0.9", Trial: 0.01, Together: 0.9, Swing: 0.03}, 1, 800},
	{analysistest.Machine{Name: "outlier 3x", Trial: 0.03, Outlier: 3}, 1, 800},
	{analysistest.Machine{Name: "outlier 10x", Trial: 0.03, Outlier: 10}, 1, 800},
	{analysistest.Machine{Name: "bursts", Trial: 0.03, Burst: 0.5}, 1, 800},
	{analysistest.Machine{Name: "queue .5", Trial: 0.02, Utilisation: 0.5}, 1, 1500},
	{analysistest.Machine{Name: "queue .65", Trial: 0.02, Utilisation: 0.65}, 1, 1500},
}

func TestWorldsX(t *testing.T) {
	text, _ := studies.Read("quick")
	one := func(record.Cell) float64 { return 1 }
	runs := 100
	if n, err := strconv.Atoi(os.Getenv("MESHTRIAL_SIMULATIONS")); err == nil {
		runs = n
	}
	for _, w := range worldsX {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 1))
			plan := studytest.Plan(t, string(text))
			// truth: very long run
			var all, cpu []float64
			var level []float64
			for range 40 {
				run := w.Run(plan, 20, 100, max(w.redeploy, 1), r, one)
				for i := range run.Trials {
					c := run.Trials[i].CPU[record.PartMachine]
					cpu = append(cpu, c.TotalS()/100*1e6)
					h := run.Hist[run.Trials[i].ID].Intended
					for _, b := range h.Distribution() {
						for range b.Count {
							all = append(all, float64(b.From+b.To)/2000)
						}
					}
				}
			}
			_ = level
			slices.Sort(all)
			q := func(p float64) float64 { return all[int(p*float64(len(all)))] }
			mean := 0.0
			for _, v := range cpu {
				mean += v / float64(len(cpu))
			}
			truth := map[string]float64{"latency_p50": q(.5), "latency_p90": q(.9), "latency_p99": q(.99), "cpu_machine_per_request": mean, "cpuM": stat.Median(cpu)}
			for _, blocks := range []int{6, 12} {
				any := 0
				cover, made, width := map[string]int{}, map[string]int{}, map[string]float64{}
				for range runs {
					plan.Seed = r.Uint64()
					run := w.Run(plan, blocks, w.requests, w.redeploy, r, one)
					f, err := kinds.Analyze(run)
					if err != nil {
						t.Fatal(err)
					}
					found := false
					for _, x := range f.Findings {
						if x.Verdict == "real" {
							found = true
						}
						want := truth[x.Name]
						if strings.HasSuffix(x.Name, "_overhead") {
							want = 0
						} else if want == 0 || x.Cell["sidecars"] != "both" {
							continue
						}
						if x.Verdict == record.VerdictInvalid {
							continue
						}
						made[x.Name]++
						width[x.Name] += (x.High - x.Low) / 2
						if x.Low <= want && want <= x.High {
							cover[x.Name]++
						}
						if x.Name == "cpu_machine_per_request" {
							made["cpuM"]++
							if x.Low <= truth["cpuM"] && truth["cpuM"] <= x.High {
								cover["cpuM"]++
							}
						}
					}
					if found {
						any++
					}
				}
				line := fmt.Sprintf("%-16s %2d any %4.1f", w.Name, blocks, 100*float64(any)/float64(runs))
				for _, n := range []string{"latency_p50", "latency_p90", "latency_p99", "cpu_machine_per_request", "cpuM", "latency_p50_overhead", "latency_p90_overhead", "latency_p99_overhead", "cpu_machine_per_request_overhead"} {
					line += fmt.Sprintf(" %s %.0f (%.1f)", strings.NewReplacer("latency_", "", "_machine_per_request", "", "_overhead", "+").Replace(n), 100*float64(cover[n])/float64(made[n]), math.Round(10*width[n]/float64(made[n]))/10)
				}
				t.Log(line)
			}
		})
	}
}
