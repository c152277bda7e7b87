package controlplane

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// FactorDisruption is what happens to all proxies' connections after the window.
const FactorDisruption = "disruption"

// Kinds of disruption.
const (
	DisruptionDrop    = "drop"    // all connections end at once
	DisruptionRestart = "restart" // istiod's pods are replaced, as in a rollout
	DisruptionKill    = "kill"    // istiod's pods are deleted without grace period and replaced
	DisruptionScale   = "scale"   // istiod gets more replicas
)

// SectionRecovery is the report section about the recovery from a disruption.
const SectionRecovery = "recovery"

// Disruption is a level of the factor; the zero value is none.
type Disruption struct {
	Kind     string
	Replicas int // of istiod, after scaling
}

// Restarts reports whether istiod's pods are replaced.
func (d Disruption) Restarts() bool { return d.Kind == DisruptionRestart || d.Kind == DisruptionKill }

var disruptionFactor = study.Text(FactorDisruption, ScopeChanges, study.LevelNone,
	"What happens after the window, once all is quiet (measure recovery records what follows): all simulated proxies lose their connections at once (drop); istiod's pods are replaced by a rollout (restart), or deleted without their grace period, so that istiod is killed after two seconds at most and replaced (kill); or istiod is scaled to N replicas (scale:N) while proxies stay connected. A simulated proxy without a connection then reconnects with Envoy's back-off.",
	`^(none|drop|restart|kill|scale:[1-9][0-9]*)$`, disruptionLevel, study.LevelNone, DisruptionDrop, DisruptionRestart, DisruptionKill, "scale:3").
	Labelled(disruptionLabel)

func disruptionLevel(s string) (string, *study.Error) {
	number, scaled := strings.CutPrefix(s, DisruptionScale+":")
	switch {
	case s == study.LevelNone, s == DisruptionDrop, s == DisruptionRestart, s == DisruptionKill:
		return s, nil
	case !scaled:
		return "", study.Complain(study.CodeInvalid, "use none, drop, restart, kill, or scale:N for N replicas of istiod", "%q is not a disruption", study.Clip(s, 40))
	}
	n, c := study.IntegerLevel(2, 100)(number)
	if c != nil {
		return "", c
	}
	return DisruptionScale + ":" + n, nil
}

// parseDisruption parses a level already known to be valid.
func parseDisruption(level string) Disruption {
	kind, number, _ := strings.Cut(level, ":")
	n, _ := strconv.Atoi(number)
	return Disruption{Kind: kind, Replicas: n}
}

func disruptionLabel(level string) string {
	switch d := parseDisruption(level); d.Kind {
	case DisruptionDrop:
		return "connections dropped"
	case DisruptionRestart:
		return "istiod restarted"
	case DisruptionKill:
		return "istiod killed"
	case DisruptionScale:
		return fmt.Sprintf("scaled to %d", d.Replicas)
	}
	return "undisturbed"
}

// checkDisruption finds disruptions that are not measured or not possible, and a recovery measure
// without a disruption.
func checkDisruption(d *study.Decoder, p *study.Plan) bool {
	fail := func(cell record.Cell, hint, text string, with ...string) bool {
		d.Fail(p.Study.Place(append([]string{FactorDisruption}, with...)...), study.CodeConflict, hint, "cell %s: %s", p.Label(cell), text)
		return false
	}
	any := false
	for _, cell := range p.Cells {
		l, err := LevelsOf(cell)
		if err != nil || l.Disruption.Kind == "" {
			continue
		}
		any = true
		before, err := strconv.Atoi(cell[FactorIstiodReplicas])
		switch {
		case !p.Study.Measured(MeasureRecovery):
			return fail(cell, "measures: [recovery, cost]", "no measure records the effect of its disruption")
		case Of(p.Study).Soak:
			return fail(cell, "leave one of them out", "a soak's istiod lives through the whole run")
		case l.Connected() == 0:
			return fail(cell, "add proxies", "without simulated proxies no recovery can be observed", FactorProxies)
		case l.Clients != ClientsGood:
			return fail(cell, "clients: good", "misbehaving proxies never recover", FactorClients)
		case l.Disruption.Kind == DisruptionScale && (err != nil || before >= l.Disruption.Replicas):
			return fail(cell, "for example istiod_replicas: 1", fmt.Sprintf("scaling to %d replicas needs %s set to fewer", l.Disruption.Replicas, FactorIstiodReplicas), FactorIstiodReplicas)
		}
	}
	if !any && p.Study.Measured(MeasureRecovery) {
		d.Fail(d.Pos("measures"), study.CodeNoCell, "settings: {disruption: drop}", "measure recovery: no cell has a disruption to recover from")
		return false
	}
	return true
}

// drainTime is the time for which a terminating istiod keeps its streams.
const drainTime = 10 * time.Second

// aftermath returns the minimum and maximum time for which a trial of a cell watches its
// disruption.
func aftermath(s *study.Study, l Levels) (shortest, longest time.Duration) {
	most := Of(s).Aftermath
	switch l.Disruption.Kind {
	case "":
		return 0, 0
	case DisruptionScale:
		return most, most
	case DisruptionRestart:
		most += drainTime
		return min(most, drainTime+restartTime+time.Duration(l.Connected())*connectTime), most + restartTime
	}
	return min(most, restartTime+time.Duration(l.Connected())*connectTime), most + restartTime
}

func recoveryFindings() []finding.Def {
	us := func(name, words, doc string) finding.Def {
		return finding.Def{Name: name, Unit: finding.UnitMicroseconds, Words: words, Doc: doc, Section: SectionRecovery}
	}
	counted := func(name, words, doc string) finding.Def {
		return finding.Def{Name: name, Unit: finding.UnitStreams, Words: words, Doc: doc, Section: SectionRecovery}
	}
	p99 := study.Compared(us("recovery_p99", "until 99% of the proxies had their configuration again", "The same for 99% of them."), SectionLevers)
	last := study.Compared(us("recovery_last", "until the last proxy had its configuration again", "The same for the last one; not reached if it still lacked some at the end of control.aftermath."), SectionLevers)
	without := study.Compared(us("without_p99", "p99 time without a stream", "The 99th percentile of that; not reached if over 1% of the losses outlasted control.aftermath."), SectionLevers)
	without.Decides = true // counted from the loss: no proxy is disconnected while istiod drains
	imbalance := study.Compared(finding.Def{Name: "connection_imbalance", Unit: finding.UnitRatio, Words: "the fullest replica's connections beyond its share", Section: SectionRecovery,
		Doc: "By how much the fullest istiod replica's connections exceed the mean of all replicas at the end of a disruption: 0% is even, 200% is all on one of three."}, SectionLevers)
	memory := study.Compared(finding.Def{Name: "istiod_memory_peak", Unit: finding.UnitBytes, Words: "istiod's peak memory after a disruption", Section: SectionRecovery,
		Doc: "Peak memory of all istiod replicas together after a disruption, sampled each second."}, SectionLevers)
	return []finding.Def{
		study.Compared(us("recovery_p50", "until half of the proxies had their configuration again", "From a disruption until half of the proxies that lost their stream had all of their configuration again."), ""),
		p99, last,
		us("recovery_first", "until the first proxy had its configuration again", "The same for the first one."),
		us("without_p50", "median time without a stream", "From the loss of a stream until its proxy had all of its configuration again: median over all losses after a disruption; not reached if half of them outlasted control.aftermath."),
		without,
		us("istiod_ready_time", "until istiod was ready", "From a restart, kill or scaling of istiod until all its new replicas were ready; not reached if they were not ready 20 s after control.aftermath."),
		counted("streams_lost", "streams lost", "Streams with a configured proxy that ended after a disruption, per trial."),
		study.Compared(counted("streams_refused", "streams that istiod refused", "New streams that istiod rejected by its limit of requests per second (ResourceExhausted) after a disruption, per trial."), ""),
		counted("streams_failed", "other attempts that failed", "Other attempts of proxies to connect that failed after a disruption, per trial."),
		study.Compared(finding.Def{Name: "istiod_cpu_peak", Unit: finding.UnitCores, Words: "istiod's peak CPU after a disruption", Section: SectionRecovery,
			Doc: "Peak CPU of all istiod replicas together in a second after a disruption; excludes what a new container used before its first sample."}, ""),
		study.Compared(finding.Def{Name: "istiod_cpu_per_return", Unit: finding.UnitMicroseconds, Words: "istiod's CPU per proxy that came back", Section: SectionRecovery,
			Doc: "istiod's CPU time after a disruption, including its start if it was restarted, per recovered loss of a stream. Unknown if the connected proxies of others exceed 5% of the study's."}, ""),
		memory, imbalance,
		us("balance_time", "until connections were even", "From a disruption until no replica had more than 1.25 times its share of the connections any more."),
	}
}
