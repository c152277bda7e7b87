package signals

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

const (
	firstAnswer  = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"a_total","pod":"x"},"value":[1000.5,"100"]},{"metric":{"__name__":"a_total","pod":"y"},"value":[1000.5,"0"]}]}}`
	secondAnswer = `{"status":"success","infos":["x"],"data":{"resultType":"vector","result":[{"metric":{"__name__":"a_total","pod":"x"},"value":[1100.5,"300"]},{"metric":{"__name__":"a_total","pod":"y"},"value":[1100.5,"100"]}]}}`
	rangeAnswer  = `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"a_total","pod":"x"},"values":[[1000.5,"100"],[1050.5,"200"],[1100.5,"300"]]},{"metric":{"__name__":"a_total","pod":"y"},"values":[[1000.5,"0"],[1050.5,"90"],[1100.5,"10"]]}]}}`
	promtool     = `[{"metric":{"__name__":"a_total","pod":"x"},"values":[[1000.5,"100"],[1100.5,"300"]]},{"metric":{"__name__":"a_total","pod":"y"},"values":[[1000.5,"0"],[1100.5,"100"]]}]`
)

// Two answers to query, in any order, or one to query_range tell rates; a counter that was reset
// counts from zero.
func TestAnswers(t *testing.T) {
	for name, files := range map[string][]string{"later first": {secondAnswer, firstAnswer}, "the same twice": {firstAnswer, secondAnswer, firstAnswer}, "range, reset": {rangeAnswer}, "promtool": {promtool}} {
		var a Answers
		for _, text := range files {
			must.OK(t, a.Read(strings.NewReader(text)))
		}
		s := a.Sampled()["a_total"]
		if s.First.UnixMilli() != 1000500 || s.Last.UnixMilli() != 1100500 || s.Whole != 1 {
			t.Errorf("%s: %+v", name, s)
		}
		source, err := a.Source("files")
		must.OK(t, err)
		got, err := source.Instant(t.Context(), "sum(rate(a_total[100001ms]))", s.Last)
		must.OK(t, err)
		if len(got) != 1 || math.Abs(got[0].Value-3) > 0.01 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Of a file that is broken, partial or of something else nothing is kept.
func TestAnswersRefused(t *testing.T) {
	for name, text := range map[string]string{
		"cut":          firstAnswer[:len(firstAnswer)-30],
		"an error":     `{"status":"error","errorType":"bad_data","error":"no","data":null}`,
		"partial":      strings.Replace(firstAnswer, `"data"`, `"warnings":["a store did not answer"],"data"`, 1),
		"scalar":       `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`,
		"other status": `{"status":{"phase":"Running"}}`,
		"list of data": `{"status":"success","data":["a","b"]}`,
		"white space":  `{"status":` + strings.Repeat(" ", 2*maxElement) + `"success"}`,
		"long series":  `[{"metric":{"__name__":"a"},"values":[` + strings.Repeat(`[1,"2"],`, maxElement/4) + `[1,"2"]]}]`,
		"":             "",
	} {
		var a Answers
		if err := a.Read(strings.NewReader(text)); err == nil || !a.Empty() {
			t.Errorf("%s: %v, empty: %v", name, err, a.Empty())
		}
	}
	var a Answers
	if err := a.Read(strings.NewReader(`[{"metric":{"pod":"x"},"value":[1,"2"]}]`)); !errors.Is(err, ErrNameless) {
		t.Errorf("an expression: %v", err)
	}
	must.OK(t, a.Read(strings.NewReader(`{"status":"success","data":{"resultType":"vector","result":[]}}`)))
}

// Series that were sampled at different times do not cover the whole.
func TestAnswersAtDifferentTimes(t *testing.T) {
	var a Answers
	must.OK(t, a.Read(strings.NewReader(firstAnswer)))
	must.OK(t, a.Read(strings.NewReader(strings.ReplaceAll(strings.ReplaceAll(secondAnswer, `"x"`, `"z"`), "1100.5", "9000"))))
	if s := a.Sampled()["a_total"]; s.Whole > 0.5 || s.Last.Sub(s.First) < time.Hour {
		t.Errorf("%+v", s)
	}
}

// A few series that began earlier do not make the rest too short.
func TestAnswersOfWhichFewBeganEarly(t *testing.T) {
	series := func(pod string, first int) string {
		return fmt.Sprintf(`{"metric":{"__name__":"a_total","pod":%q},"values":[[%d,"0"],[100,"8"]]}`, pod, first)
	}
	var a Answers
	must.OK(t, a.Read(strings.NewReader(`{"status":"success","data":{"resultType":"matrix","result":[`+strings.Join([]string{series("x", 0), series("y", 20), series("z", 20), series("w", 21)}, ",")+`]}}`)))
	if s := a.Sampled()["a_total"]; s.First.Unix() != 21 || s.Last.Unix() != 100 || s.Whole != 1 {
		t.Errorf("%+v", s)
	}
}

// Any file is read or refused.
func FuzzAnswers(f *testing.F) {
	for _, text := range []string{firstAnswer, rangeAnswer, promtool, `{"data":{"result":[{"metric":null,"value":null}]},"status":"success"}`, `[{"metric":{"__name__":"a"},"value":[1e300,"NaN"]}]`, "[", "{}"} {
		f.Add([]byte(text), []byte(firstAnswer))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var a Answers
		for _, text := range [][]byte{first, second} {
			empty := a.Empty()
			if err := a.Read(strings.NewReader(string(text))); err != nil && a.Empty() != empty {
				t.Error("a part was kept")
			}
		}
		source, err := a.Source("fuzz")
		must.OK(t, err)
		for name, s := range a.Sampled() {
			if s.Last.Before(s.First) {
				t.Errorf("%s: %+v", name, s)
			}
			if _, err := source.Has(t.Context(), []string{name}, s.First, s.Last); err != nil {
				t.Error(err)
			}
		}
	})
}
