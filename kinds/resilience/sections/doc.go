// Package sections is what reports of studies of resilience show: a [report.Kind],
// whose sections have a file each, or a few that belong together. It is pure.
package sections
