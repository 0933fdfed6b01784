"""Sentences written by hand with the right answers: phrasings that no template of the corpus has."""

from __future__ import annotations

from typing import Any

SENTENCES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "person",
        "Grace Hopper, 79, spent her last years in Arlington.",
        {"name": "Grace Hopper", "age": 79, "city": "Arlington"},
    ),
    (
        "person",
        "Back in Lucca, everybody knows Pietro Salvini, now 64.",
        {"name": "Pietro Salvini", "age": 64, "city": "Lucca"},
    ),
    (
        "resident",
        "Marion Keats, our dentist, has her home at 12 Willow Lane, 40213 Haarlem.",
        {
            "name": "Marion Keats",
            "job": "dentist",
            "address": {"street": "12 Willow Lane", "city": "Haarlem", "postcode": "40213"},
        },
    ),
    (
        "resident",
        "Deliver to Tobias Renner, pilot, 88 Chapel Road, Norwich, N3 4QT.",
        {
            "name": "Tobias Renner",
            "job": "pilot",
            "address": {"street": "88 Chapel Road", "city": "Norwich", "postcode": "N3 4QT"},
        },
    ),
    (
        "meeting",
        "Budget Review on 2026-12-04 at 09:30? Nadia, Tom and Wilhelm should come.",
        {
            "title": "Budget Review",
            "date": "2026-12-04",
            "time": "09:30",
            "attendees": ["Nadia", "Tom", "Wilhelm"],
        },
    ),
    (
        "meeting",
        "We have the Safety Briefing on 7 June 2028, starting 16:45, with Agnes and Rolf.",
        {"title": "Safety Briefing", "date": "2028-06-07", "time": "16:45", "attendees": ["Agnes", "Rolf"]},
    ),
    (
        "order",
        "Hi, Marta Kowalczyk here. We need 3 wooden chairs and 12 blue mugs by express, please.",
        {
            "customer": "Marta Kowalczyk",
            "items": [{"product": "wooden chairs", "quantity": 3}, {"product": "blue mugs", "quantity": 12}],
            "express": True,
        },
    ),
    (
        "order",
        "Stefan Ruiz has put in for 7 leather notebook, no rush at all.",
        {
            "customer": "Stefan Ruiz",
            "items": [{"product": "leather notebook", "quantity": 7}],
            "express": False,
        },
    ),
    (
        "review",
        "The silver kettle leaks and the handle broke on day one. 1 star, do not buy it.",
        {"product": "silver kettle", "sentiment": "negative", "rating": 1, "recommend": False},
    ),
    (
        "review",
        "What a wonderful electric guitar! 5 of 5, everybody should have one.",
        {"product": "electric guitar", "sentiment": "positive", "rating": 5, "recommend": True},
    ),
    (
        "flight",
        "Book Ravi Menon on the flight from Lisbon to Oslo, 14 March 2027, seat 22A.",
        {
            "passenger": "Ravi Menon",
            "origin": "Lisbon",
            "destination": "Oslo",
            "date": "2027-03-14",
            "seat": "22A",
        },
    ),
    (
        "flight",
        "On 2029-08-02 Celeste Dumont goes from Nantes to Malta and has seat 7C.",
        {
            "passenger": "Celeste Dumont",
            "origin": "Nantes",
            "destination": "Malta",
            "date": "2029-08-02",
            "seat": "7C",
        },
    ),
    (
        "invoice",
        "Invoice INV-7730 from Halloran Ltd for $1480.25 is due on 2026-11-30 and still open.",
        {
            "number": "INV-7730",
            "vendor": "Halloran Ltd",
            "total": 1480.25,
            "currency": "USD",
            "due": "2026-11-30",
            "paid": False,
        },
    ),
    (
        "invoice",
        "Brandt GmbH charged us 96.40 EUR, number 3051-22, payable by 2027-02-15; already paid.",
        {
            "number": "3051-22",
            "vendor": "Brandt GmbH",
            "total": 96.4,
            "currency": "EUR",
            "due": "2027-02-15",
            "paid": True,
        },
    ),
    (
        "job",
        "Orlova Labs wants a Cloud Engineer who knows Rust and Kafka. Remote. 91500 a year.",
        {
            "title": "Cloud Engineer",
            "company": "Orlova Labs",
            "salary": 91500,
            "remote": True,
            "skills": ["Rust", "Kafka"],
        },
    ),
    (
        "job",
        "Now open: Junior Tester, 38000 per year, at Whitcombe Media, office only. Skills: SQL, Excel and testing.",
        {
            "title": "Junior Tester",
            "company": "Whitcombe Media",
            "salary": 38000,
            "remote": False,
            "skills": ["SQL", "Excel", "testing"],
        },
    ),
    (
        "ticket",
        "This is Priya Raman. My parcel never arrived and I need it today, this is urgent!",
        {"customer": "Priya Raman", "category": "shipping", "priority": "high"},
    ),
    (
        "ticket",
        "The app crashes when I open the settings. No hurry. Yours, Owen Bright",
        {"customer": "Owen Bright", "category": "bug", "priority": "low"},
    ),
    (
        "contact",
        "Any questions? Ask Lucy Arden: lucy.arden@example.com or 555 0142.",
        {"name": "Lucy Arden", "email": "lucy.arden@example.com", "phone": "555 0142"},
    ),
    (
        "contact",
        "Bernd Falk has no phone, but his mail is bernd@post.example.",
        {"name": "Bernd Falk", "email": "bernd@post.example", "phone": None},
    ),
    (
        "reading",
        "At Kingsbay 4 it is -11.5 degrees, humidity 68 percent, no alarm.",
        {"station": "Kingsbay 4", "temperature": -11.5, "humidity": 68, "alarm": False},
    ),
    (
        "reading",
        "Alarm at Port Lowell: 39.2 degrees and only 14% humidity.",
        {"station": "Port Lowell", "temperature": 39.2, "humidity": 14, "alarm": True},
    ),
    (
        "book",
        "Mary Shelley published The Last Man in 1826; my copy has 479 pages.",
        {"title": "The Last Man", "author": "Mary Shelley", "year": 1826, "pages": 479},
    ),
    (
        "book",
        "Silent Orchard (2011) by Henrik Dahlberg runs to 352 pages.",
        {"title": "Silent Orchard", "author": "Henrik Dahlberg", "year": 2011, "pages": 352},
    ),
    (
        "tool",
        "Could you tell Jonas: the train is late?",
        {"tool": "send_message", "arguments": {"to": "Jonas", "text": "the train is late"}},
    ),
    (
        "tool",
        "Is it cold in Bratislava today? I use celsius.",
        {"tool": "get_weather", "arguments": {"city": "Bratislava", "unit": "celsius"}},
    ),
    (
        "tool",
        "I need to know what 75.5 GBP is in EUR.",
        {"tool": "convert_currency", "arguments": {"amount": 75.5, "source": "GBP", "target": "EUR"}},
    ),
]
