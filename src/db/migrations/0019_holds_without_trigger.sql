-- Every statement passes the organization of a hold, as that of a movement: see 0014_ledger_without_trigger. Locks holds for milliseconds.
DROP TRIGGER IF EXISTS holds_organization ON holds;
