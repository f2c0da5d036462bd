"""Scrapers of odds portals: OddsHarvester and OddsPortal."""
