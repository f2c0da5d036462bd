"""What scrapers take from odds portals: OddsHarvester and OddsPortal."""
