package study

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// Variant is how a pod must be deployed for a cell: with or without a
// sidecar, and with which settings. Cells that differ only in load share
// variants. Fields that mean nothing are empty. Variants compare with ==.
type Variant struct {
	Sidecar     bool
	MTLS        string // server pod only: what its sidecar accepts
	Telemetry   string
	Concurrency string
	CPULimit    string
	Envoy       string
	// Interception is redirect or none.
	Interception string
	Filters      string // server pod only: parts switched on in its sidecar
}

// ClientVariant returns how the load pod of a cell is deployed.
func ClientVariant(cell record.Cell) Variant {
	if !HasClientProxy(cell) {
		return Variant{}
	}
	return proxyVariant(cell)
}

// ServerVariant returns how the worker pod of a cell is deployed.
func ServerVariant(cell record.Cell) Variant {
	if !HasServerProxy(cell) {
		return Variant{}
	}
	v := proxyVariant(cell)
	v.MTLS = DataPlane.Effective(cell)[FactorMTLS]
	v.Filters = cell[FactorFilters]
	return v
}

func proxyVariant(cell record.Cell) Variant {
	return Variant{
		Sidecar:     true,
		Telemetry:   cell[FactorTelemetry],
		Concurrency: cell[FactorConcurrency],
		CPULimit:    cell[FactorCPULimit],
		Envoy:       cell[FactorEnvoy],

		Interception: cell[FactorInterception],
	}
}

// maxVariantName leaves room for a role in front of it in the name of a
// Kubernetes object (63 characters), and for a pod's suffix.
const maxVariantName = 40

// Name is short, stable and fit to be part of a Kubernetes name: "plain"
// without a sidecar, else "sidecar" and what differs from the defaults.
func (v Variant) Name() string {
	if !v.Sidecar {
		return "plain"
	}
	parts := []string{"sidecar"}
	add := func(factor, level, text string) {
		if f, _ := FactorByName(factor); level != "" && level != f.Default {
			parts = append(parts, text)
		}
	}
	add(FactorMTLS, v.MTLS, "mtls-"+v.MTLS)
	add(FactorTelemetry, v.Telemetry, strings.NewReplacer("access-log-", "log-", "+", "-").Replace(v.Telemetry))
	add(FactorConcurrency, v.Concurrency, "c"+v.Concurrency)
	add(FactorCPULimit, v.CPULimit, "cpu"+v.CPULimit)
	add(FactorInterception, v.Interception, "no-redirect")
	add(FactorEnvoy, v.Envoy, "envoy"+strings.ReplaceAll(v.Envoy, ".", "-"))
	add(FactorFilters, v.Filters, strings.ReplaceAll(v.Filters, partSeparator, "-"))
	name := strings.Join(parts, "-")
	if len(name) > maxVariantName {
		h := fnv.New32a()
		h.Write([]byte(name))
		name = strings.TrimRight(name[:maxVariantName-9], "-") + fmt.Sprintf("-%08x", h.Sum32())
	}
	return name
}

// ClientVariants returns the distinct load pods the plan needs, in the
// order of its cells.
func (p *Plan) ClientVariants() []Variant { return distinct(p.Cells, ClientVariant) }

// ServerVariants returns the distinct worker pods the plan needs.
func (p *Plan) ServerVariants() []Variant { return distinct(p.Cells, ServerVariant) }

func distinct(cells []record.Cell, of func(record.Cell) Variant) []Variant {
	var out []Variant
	seen := map[Variant]bool{}
	for _, cell := range cells {
		if v := of(cell); !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}
