// Package sections renders reports of data-plane studies: it supplies a [report.Kind], with one
// file per section or group of related sections. It is pure.
package sections
