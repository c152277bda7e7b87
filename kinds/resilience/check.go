package resilience

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// resolveScenario fills in what depends on other fields.
func resolveScenario(d *study.Decoder, s *study.Study) {
	c := Of(s)
	if (len(c.Graph.Services) > 0) == (c.Generate != nil) {
		d.Fail(d.Pos("graph"), study.CodeConflict, "use one of them", "the graph needs either services or generate")
		return
	}
	if c.Generate != nil {
		c.Generate.Like.Sidecar = true // like named services
		g, err := graph.Generate(*c.Generate)
		if err != nil {
			d.Fail(d.Pos("graph", "generate"), study.CodeConflict, "", "%v", err)
			return
		}
		c.Graph, c.Generate = g, nil
	}
	c.Graph = c.Graph.WithDefaults()
	if roots := c.Graph.Roots(); c.Entry == "" && len(roots) == 1 {
		c.Entry = roots[0]
	}
	for i := range c.Timeline.Steps {
		if a := c.Timeline.Steps[i].Action; a != nil {
			a.Settle()
		}
	}
}

// checkScenario finds errors within the graph and the timeline, and between them.
func checkScenario(d *study.Decoder, s *study.Study) {
	c := Of(s)
	for _, p := range c.Graph.Check() {
		d.Fail(graphPos(d, p.Path), study.CodeConflict, p.Hint, "%s", strings.TrimPrefix(p.Error(), p.Path+": "))
	}
	if len(d.Errs) > 0 {
		return
	}
	names := c.Names()
	known := func(name string) bool { return slices.Contains(names, name) }
	switch {
	case c.Entry == "":
		d.Fail(d.Pos("load"), study.CodeConflict, "for example load: {to: "+c.Graph.Roots()[0]+"}", "several services are called by no other; choose the one that clients call")
	case !known(c.Entry):
		d.Fail(d.Pos("load", "to"), study.CodeUnknown, errs.Suggest(c.Entry, names), "there is no service %q", c.Entry)
	}
	gateway, gated := c.Graph.Gateway()
	if gated && c.Entry != gateway.Name && c.Entry != "" {
		d.Fail(d.Pos("load", "to"), study.CodeConflict, "as load: {to: "+gateway.Name+"}, or leave to out", "clients call %s, and not the gateway %s", c.Entry, gateway.Name)
	}
	for _, p := range c.Timeline.Check() {
		at := []any{"timeline", "steps", p.Step}
		if p.Field != "" {
			at = append(at, p.Field)
		}
		d.Fail(d.Pos(at...), study.CodeConflict, p.Hint, "%s", p.Text)
	}
	for i, step := range c.Timeline.Steps {
		if step.Action == nil {
			continue
		}
		at := func(field string) study.Pos { return d.Pos("timeline", "steps", i, step.Kind(), field) }
		for _, r := range fault.Services(step.Action) {
			if r.Clients && r.Service == fault.LoadService || known(r.Service) {
				continue
			}
			d.Fail(at(r.Field), study.CodeUnknown, errs.Suggest(r.Service, names), "there is no service %q", r.Service)
		}
		if field := needsWorker(step.Action); field != "" && gated && slices.ContainsFunc(fault.Services(step.Action), func(r fault.Reference) bool { return r.Service == gateway.Name }) {
			d.Fail(at(field), study.CodeConflict, "name another service", "the pods of gateway %s have no worker", gateway.Name)
		}
		if p, ok := step.Action.(*fault.Process); ok && gated && p.Service == fault.LoadService && (p.Of == fault.OfProxy || p.Of == fault.OfAgent) {
			d.Fail(at("of"), study.CodeConflict, "for example of: "+fault.OfProxy+" with service: "+gateway.Name, "clients of a gateway are outside the mesh and have no sidecar")
		}
		for _, p := range step.Action.Check(step.Name, c.Entry) {
			d.Fail(at(p.Field), study.CodeConflict, p.Hint, "%s", p.Text)
		}
	}
	checkMoments(d, s)
	checkSkips(d, s)
	checkAmbientGraph(d, s)
	checkSizedGraph(d, s)
	checkStreams(d, s)
}

// checkStreamCells finds clients that would open a connection for each message of a stream.
func checkStreamCells(d *study.Decoder, p *study.Plan) {
	for _, cell := range p.Cells {
		if name := cell[study.FactorProtocol]; protocol.Of(name).Streams && cell[study.FactorKeepAlive] == "false" {
			d.Fail(p.Study.Place(study.FactorKeepAlive), study.CodeConflict, "leave it out of "+p.Label(cell), "protocol %s sends all messages of a connection on one stream, which stays open", name)
			return
		}
	}
}

// checkStreams rejects a ledger of messages, which only clients see one by one.
func checkStreams(d *study.Decoder, s *study.Study) {
	if !s.Measured(study.MeasureLedger) {
		return
	}
	for _, name := range s.Levels(study.FactorProtocol) {
		if protocol.Of(name).Streams {
			d.Fail(s.Place(study.FactorProtocol), study.CodeConflict, "for example measures: [latency, cpu, memory]", "measures: %s: messages of protocol %s carry no id that proxies and workers could log", study.MeasureLedger, name)
			return
		}
	}
}

// needsWorker returns the field of an action that acts on workers, "" for other actions.
func needsWorker(a fault.Action) string {
	switch a := a.(type) {
	case *fault.Worker:
		return "service"
	case *fault.Process:
		if a.Of == fault.OfWorker {
			return "of"
		}
	}
	return ""
}

// checkSizedGraph rejects a section sizing for a graph with a timeline, or with services outside
// the mesh.
func checkSizedGraph(d *study.Decoder, s *study.Study) {
	c := Of(s)
	switch {
	case !d.CheckSizing(s):
	case len(c.Timeline.Steps) > 0:
		d.FailSizing("leave the steps out", "sizing measures proxies while nothing happens, and the timeline has steps")
	case slices.ContainsFunc(c.Graph.Services, func(one graph.Service) bool { return one.Gateway }):
		d.FailSizing("leave the gateway out", "sizing measures sidecars, and the graph has a gateway")
	case slices.ContainsFunc(c.Graph.Services, func(one graph.Service) bool { return !one.Sidecar }):
		d.FailSizing("leave sidecar: false out", "sizing needs all services in the mesh, and one of the graph has no sidecar")
	}
}

// Drains reports whether a step drains nodes in some cell, which requires other nodes for their
// pods.
func Drains(p *study.Plan) bool {
	return slices.ContainsFunc(p.Cells, func(cell record.Cell) bool {
		timeline := Of(p.Study).TimelineOf(cell)
		return timeline.Drains()
	})
}

// ZonesNeeded is the number of zones that a study needs in which zones matter: one that goes away,
// and two that share its calls.
const ZonesNeeded = 3

// Zoned reports whether zones matter in a cell: a step acts on one, or proxies weigh them.
func (c *Scenario) Zoned(cell record.Cell) bool {
	timeline := c.Timeline
	_, weighs := study.OwnZone(cell[study.FactorLocality])
	return weighs || timeline.Zones()
}

// Zoned reports whether zones matter in some cell.
func Zoned(p *study.Plan) bool { return slices.ContainsFunc(p.Cells, Of(p.Study).Zoned) }

// Unweighed returns why proxies cannot give zones the weights that a cell's level of the factor
// locality asks for, in a number of zones, and what to do; "" if they can.
func (c *Scenario) Unweighed(cell record.Cell, zones int) (why, hint string) {
	share, weighs := study.OwnZone(cell[study.FactorLocality])
	if !weighs {
		return "", ""
	}
	if rest := 100 - share; rest < zones-1 {
		return fmt.Sprintf("own=%d%% leaves %d%% for %d other zones, each of which needs a whole percentage", share, rest, zones-1), fmt.Sprintf("use at most own=%d%%", 101-zones)
	}
	for _, one := range c.Graph.Services {
		if !one.Gateway && one.Replicas < zones {
			return fmt.Sprintf("service %s has fewer replicas (%d) than there are zones (%d), and a zone without one gets no share", one.Name, one.Replicas, zones), fmt.Sprintf("set replicas: %d", zones)
		}
	}
	return "", ""
}

// checkWeights finds cells whose weights of zones cannot be had in as few zones as a run needs.
func checkWeights(d *study.Decoder, p *study.Plan) {
	for _, cell := range p.Cells {
		if why, hint := Of(p.Study).Unweighed(cell, ZonesNeeded); why != "" {
			d.Fail(p.Study.Place(study.FactorLocality), study.CodeConflict, hint, "cell %s: %s: %s", p.Label(cell), study.FactorLocality, why)
			return
		}
	}
}

// checkAmbientGraph finds services outside the mesh that need a waypoint, or whose calls into an
// ambient mesh nothing carries.
func checkAmbientGraph(d *study.Decoder, s *study.Study) {
	levels, services := s.Levels(study.FactorSidecars), Of(s).Graph.Services
	if slices.Contains(levels, study.SidecarsWaypoint) && slices.ContainsFunc(services, func(one graph.Service) bool { return !one.Sidecar }) {
		at := d.Pos("factors", study.FactorSidecars)
		if n := d.Root.Get("settings"); n != nil && n.Get(study.FactorSidecars) != nil {
			at = d.Pos("settings", study.FactorSidecars)
		}
		d.Fail(at, study.CodeConflict, "leave sidecar: false out, or "+study.SidecarsWaypoint, "with sidecars: %s all services use the waypoint, and one of the graph is not in the mesh", study.SidecarsWaypoint)
		return
	}
	flow, err := Of(s).Graph.Flow(graph.Load{Entry: Of(s).Entry})
	if d.Stored || !slices.Contains(levels, study.SidecarsAmbient) || err != nil { // reported elsewhere
		return
	}
	for i, one := range services {
		for _, call := range one.Calls {
			to, _ := Of(s).Graph.Service(call.To)
			if one.Sidecar || !to.Sidecar || flow.Services[i].Visits == 0 {
				continue
			}
			d.Fail(graphPos(d, "services."+one.Name+".sidecar"), study.CodeConflict, fmt.Sprintf("remove sidecar: false from %s, or add it to %s too", one.Name, to.Name),
				"with sidecars: %s every request to %s must pass ztunnel on both sides, but its caller %s is not in the mesh", study.SidecarsAmbient, to.Name, one.Name)
			break
		}
	}
}

// checkCarried finds a gateway that a cell's mesh lacks, and steps that the carrier of a cell's
// requests cannot carry out or prove.
func checkCarried(d *study.Decoder, p *study.Plan) {
	if gateway, ok := Of(p.Study).Graph.Gateway(); ok {
		for _, cell := range p.Cells {
			if cell[study.FactorMesh] == study.MeshIstio && !study.Ambient(cell) {
				continue
			}
			d.Fail(d.Pos("graph", "services", gateway.Name, "gateway"), study.CodeConflict, "use mesh: "+study.MeshIstio+" with sidecars: "+study.SidecarsBoth+", or leave the gateway out",
				"%s has no ingress gateway in scenarios", p.Label(cell))
			break
		}
	}
	told := map[int]bool{}
	for _, cell := range p.Cells {
		for i, step := range Of(p.Study).Timeline.Steps {
			if told[i] || slices.Contains(skipped(cell[FactorSkip]), step.Name) {
				continue
			}
			field, why, hint := unfit(step.Action, cell)
			if why == "" {
				continue
			}
			told[i] = true
			at := []any{"timeline", "steps", i, step.Kind()}
			if field != "" {
				at = append(at, field)
			}
			d.Fail(d.Pos(at...), study.CodeConflict, hint+"; a variant leaves a step out with skip: "+step.Name, "step %q cannot apply to %s: %s", step.Name, p.Label(cell), why)
		}
	}
}

// unfit returns why an action cannot apply to a cell, in which field, and a hint; it returns "" if
// it can.
func unfit(a fault.Action, cell record.Cell) (field, why, hint string) {
	const ownProxies = "name ztunnel or the waypoint, or a worker"
	of := ""
	switch a := a.(type) {
	case *fault.Process:
		of = a.Of
	case *fault.Restart:
		of = a.Of
	case *fault.Revision, *fault.Move:
		if cell[study.FactorMesh] == study.MeshNone {
			return "", "it has no mesh, and so no revisions", "use mesh: " + study.MeshIstio
		}
	}
	switch {
	case of == fault.OfZtunnel && !study.Ambient(cell):
		return "of", "its requests pass no ztunnel", "for example settings: {sidecars: " + study.SidecarsAmbient + "}"
	case of == fault.OfWaypoint && !study.Waypoint(cell):
		return "of", "its requests pass no waypoint", "for example settings: {sidecars: " + study.SidecarsWaypoint + "}"
	case !study.Ambient(cell):
		return "", "", ""
	case of == fault.OfProxy, of == fault.OfAgent:
		return "of", "its pods have no sidecars", ownProxies
	}
	switch a := a.(type) {
	case *fault.Restart:
		if a.Proxy != "" {
			return "proxy", "its pods have no sidecars", ownProxies
		}
	case *fault.Network:
		if study.Waypoint(cell) {
			return "from", "packets pass the waypoint, and none go from the pods of " + a.From + " to those of " + a.To, "use sidecars: " + study.SidecarsAmbient
		}
	case *fault.Zone:
		if study.Waypoint(cell) {
			return "service", "packets pass the waypoint, which is in no zone of the step", "use sidecars: " + study.SidecarsAmbient
		}
	case *fault.Certificates:
		return "", "its pods have no sidecars that expose certificates", "use sidecars: " + study.SidecarsBoth
	case *fault.Config:
		if a.ConfiguresProxies() {
			return "", "its pods have no sidecars that report whether they accepted the configuration", "use sidecars: " + study.SidecarsBoth
		}
	}
	return "", "", ""
}

// graphPos returns the position of a field by its path in package graph, such as
// services.front.calls[0].to.
func graphPos(d *study.Decoder, path string) study.Pos {
	at := []any{"graph"}
	for part := range strings.SplitSeq(path, ".") {
		name, index, indexed := strings.Cut(part, "[")
		if name != "" {
			at = append(at, name)
		}
		if indexed {
			if i, err := strconv.Atoi(strings.TrimSuffix(index, "]")); err == nil {
				at = append(at, i)
			}
		}
	}
	return d.Pos(at...)
}

// checkMoments finds assertions that name unknown steps.
func checkMoments(d *study.Decoder, s *study.Study) {
	var names []string
	for _, o := range Of(s).Timeline.Plan() {
		names = append(names, o.Name)
	}
	for i, e := range s.Assert {
		for _, f := range []struct{ field, name string }{{"after", e.After}, {"until", e.Until}} {
			if f.name != "" && !slices.Contains(names, f.name) {
				d.Fail(d.Pos("assert", i, f.field), study.CodeUnknown, errs.Suggest(f.name, names), "there is no step %q", f.name)
			}
		}
	}
}

// checkSkips finds skip levels that name unknown steps.
func checkSkips(d *study.Decoder, s *study.Study) {
	var names []string
	for _, step := range Of(s).Timeline.Steps {
		names = append(names, step.Name)
		if l, ok := step.Action.(*fault.Load); ok && l.Announced > 0 {
			names = append(names, step.Name+fault.Announced)
		}
	}
	check := func(level string, at ...any) {
		for _, name := range skipped(level) {
			if !slices.Contains(names, name) {
				d.Fail(d.Pos(at...), study.CodeUnknown, errs.Suggest(name, names), "there is no step %q to skip", name)
			}
		}
	}
	check(s.Settings[FactorSkip], "settings", FactorSkip)
	for _, level := range s.Varied(FactorSkip) {
		check(level, "factors", FactorSkip)
	}
	for _, v := range s.Chosen() {
		check(v.Levels[FactorSkip], "variants", v.Name, FactorSkip)
	}
}
