// Package sections is what reports of studies of the control plane show: a [report.Kind],
// whose sections have a file each, or a few that belong together. It is pure.
package sections
