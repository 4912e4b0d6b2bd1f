-- Units of what is reported of a hold. Locks `holds` for the time of a new column, which rewrites nothing.
ALTER TABLE "holds" ADD COLUMN "counted_units" json;