package dataplane

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Variant is how a pod must be deployed for a cell: with or without a sidecar, and with the levels
// of the factors that affect it. Cells that differ only in load share variants. Variants compare
// with ==.
type Variant struct {
	Sidecar bool
	// Carrier is the cell's level of the factor sidecars if proxies other than sidecars carry the
	// pod's requests; else "".
	Carrier string
	// Twin marks a second identical pod. The difference between the two is the variation between
	// pods.
	Twin    bool
	planted string // the level of the factor planted; "" for none
	place   string // see [Variant.Place]
	// Outside is the level of the factor destination of a server outside the mesh; else "".
	Outside string
	levels  string // the key of a cell with these levels
}

// For returns the variant that measures a cell's trial of a repeat: the second turn of a baseline
// in a block has pods of its own.
func (v Variant) For(repeat int) Variant {
	v.Twin = repeat > 0
	return v
}

// SidecarWith returns a pod with a sidecar at these levels.
func SidecarWith(levels record.Cell) Variant {
	var set []string
	for _, f := range factors {
		if level := levels[f.Name]; level != "" && (f.Scope == study.ScopeProxies || f.Scope == study.ScopeServer) {
			set = append(set, f.Name+"="+level)
		}
	}
	return Variant{Sidecar: true, levels: strings.Join(set, "\n")}
}

// Levels returns the levels of the factors that affect the sidecar.
func (v Variant) Levels() record.Cell {
	out := record.Cell{}
	for line := range strings.Lines(v.levels) {
		factor, level, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		out[factor] = level
	}
	return out
}

// Level returns the level of a factor; "" if it does not affect the sidecar.
func (v Variant) Level(factor string) string { return v.Levels()[factor] }

// ClientVariant returns how the load pod of a cell is deployed.
func ClientVariant(cell record.Cell) Variant {
	place := ""
	if placeOf(cell) != "" {
		place = PlacementClient
	}
	if !study.HasClientProxy(cell) {
		return Variant{}.in(cell, place)
	}
	levels := study.DataPlane.Effective(cell)
	for _, f := range factors {
		if f.Scope == study.ScopeServer {
			delete(levels, f.Name)
		}
	}
	return SidecarWith(levels).in(cell, place)
}

// ServerVariant returns how the worker pod of a cell is deployed.
func ServerVariant(cell record.Cell) Variant {
	if study.Outside(cell) {
		// Only a waypoint needs to be told of it by an entry of its own.
		v := Variant{Outside: cell[study.FactorDestination]}.in(cell, placeOf(cell))
		if !study.Waypoint(cell) {
			v.Carrier = ""
		}
		return v
	}
	if !study.HasServerProxy(cell) {
		v := Variant{}.in(cell, placeOf(cell))
		if atWaypoint(cell) {
			v.levels = FactorFilters + "=" + cell[FactorFilters]
		}
		return v
	}
	return SidecarWith(study.DataPlane.Effective(cell)).in(cell, placeOf(cell))
}

// in adds to a variant what all pods of a cell have, and its place.
func (v Variant) in(cell record.Cell, place string) Variant {
	if way := study.CarrierOf(cell[study.FactorSidecars]).Way; len(way) > len(way.At(record.PlaceSidecar)) {
		v.Carrier = cell[study.FactorSidecars]
	}
	if level := cell[FactorPlanted]; level != PlantedNone {
		v.planted = level
	}
	v.place = place
	return v
}

// maxVariantName leaves room for a role prefix in the name of a Kubernetes object (63 characters),
// and for a pod's suffix.
const maxVariantName = 40

// Name returns a short, stable name that can be part of a Kubernetes name: without a sidecar
// "plain" or the carrier of the pod's requests, else "sidecar" and the differences from the
// defaults.
func (v Variant) Name() string {
	if v.Twin {
		v.Twin = false
		return v.Name() + "-twin"
	}
	parts := []string{"sidecar"}
	switch {
	case !v.Sidecar && v.Carrier == "":
		parts[0] = "plain"
	case !v.Sidecar:
		parts[0] = v.Carrier
	case v.Carrier != "":
		parts = append(parts, v.Carrier)
	}
	if v.Outside != "" {
		parts = append(parts[:0], v.Outside)
		if v.Carrier != "" {
			parts = append(parts, v.Carrier)
		}
	}
	levels := v.Levels()
	for _, f := range factors {
		if level := levels[f.Name]; level != "" && level != f.Default {
			parts = append(parts, f.ShortName(level))
		}
	}
	if v.planted != "" {
		parts = append(parts, plantedFactor.ShortName(v.planted))
	}
	if v.place != "" {
		parts = append(parts, placementFactor.ShortName(v.place))
	}
	name := strings.Join(parts, "-")
	if len(name) > maxVariantName {
		h := fnv.New32a()
		h.Write([]byte(name))
		name = strings.TrimRight(name[:maxVariantName-9], "-") + fmt.Sprintf("-%08x", h.Sum32())
	}
	return name
}

// ClientVariants returns the distinct load pods that the plan needs, in the order of its cells,
// with the twins of baselines.
func ClientVariants(p *study.Plan) []Variant { return distinct(p, ClientVariant) }

// GeneratorsIn returns the number of load generators that send a cell's requests.
func GeneratorsIn(cell record.Cell) int { return study.CountIn(cell, study.FactorGenerators) }

// Generators returns the maximum number of load pods of a variant that the plan needs at once.
func Generators(p *study.Plan, v Variant) int {
	most := 0
	for i, cell := range p.Cells {
		if of := ClientVariant(cell); of == v || p.Doubled(i) && of.For(1) == v {
			most = max(most, GeneratorsIn(cell))
		}
	}
	return most
}

// LoadPods returns the maximum number of load pods that the plan needs at once.
func LoadPods(p *study.Plan) int {
	n := 0
	for _, v := range ClientVariants(p) {
		n += Generators(p, v)
	}
	return n
}

// ServerVariants returns the distinct worker pods that the plan needs.
func ServerVariants(p *study.Plan) []Variant { return distinct(p, ServerVariant) }

func distinct(p *study.Plan, of func(record.Cell) Variant) []Variant {
	var out []Variant
	seen := map[Variant]bool{}
	for i, cell := range p.Cells {
		repeats := 1
		if p.Doubled(i) {
			repeats = 2
		}
		for repeat := range repeats {
			if v := of(cell).For(repeat); !seen[v] {
				seen[v] = true
				out = append(out, v)
			}
		}
	}
	return out
}
