;;; edn-bridge-chat-tests.el --- Tests of the chat buffer  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)

(ert-deftest edn-bridge-chat-shows-a-turn-however-it-is-split ()
  (let ((bytes (edn-bridge-test-bytes "turn.edn"))
        (expected "You\nHi\n\nAssistant\nGrüße, 世界! {\"a\": [true, false]} \\ 🎉\n"))
    (dolist (size '(1 5 100 nil))
      (edn-bridge-test-with-chat (conn sent)
        (edn-bridge-transcript-set-draft "Hi")
        (edn-bridge-input-send)
        (should (equal (plist-get (car sent) :op) "prompt"))
        (edn-bridge-test-feed conn bytes size)
        (should (equal (edn-bridge-test-transcript) expected))
        (should (equal (edn-bridge-transcript-draft) ""))
        (should-not (edn-bridge-chat-running-p))))))

(ert-deftest edn-bridge-input-sends-by-what-the-text-is-and-whether-a-turn-runs ()
  (pcase-dolist (`(,running ,text ,op ,key)
                 '((nil "hello" "prompt" :message)
                   (nil "/model" "command" :text)
                   (nil "/usr/bin is a folder" "prompt" :message)
                   (nil "//x" "prompt" :message)
                   (nil "/name a b" "command" :text)
                   (t "hello" "steer" :message)
                   (t "/abort" "command" :text)))
    (edn-bridge-test-with-chat (conn sent)
      (when running
        (edn-bridge-test-event conn "session/updated"
                               :session-id "s1" :is-streaming t))
      (edn-bridge-transcript-set-draft text)
      (edn-bridge-input-send)
      (ert-info (text :prefix "text: ")
        (should (equal (plist-get (car sent) :op) op))
        (should (equal (plist-get (plist-get (car sent) :params) key) text))))))

(ert-deftest edn-bridge-chat-gives-the-draft-back-when-it-is-refused ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-transcript-set-draft "hello")
    (edn-bridge-input-send)
    (edn-bridge-rpc--dispatch-frame
     conn (list :kind :error :id (plist-get (car sent) :id) :op "prompt"
                :error-code "request/session-not-idle"
                :error-message "The session is not idle"))
    (should (equal (edn-bridge-transcript-draft) "hello"))
    (should (string-match-p "not idle" (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-chat-keeps-draft-and-undo-while-text-streams-above ()
  (edn-bridge-test-with-chat (conn _sent)
    (goto-char (point-max))
    (insert "one")
    (undo-boundary)
    (insert " two")
    (undo-boundary)
    (backward-char 2)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "abc\n")
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "def")
    (should (equal (edn-bridge-transcript-draft) "one two"))
    (should (looking-at-p "wo\\'"))
    (let ((last-command nil)
          (inhibit-message t))
      (undo)
      (undo-boundary)
      (should (equal (edn-bridge-transcript-draft) "one")))
    (should (string-match-p "abc\ndef" (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-chat-protects-what-is-above-the-draft ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "abc")
    (dolist (place (list (point-min) (+ 2 (point-min))
                         (edn-bridge-transcript-end)))
      (goto-char place)
      (should-error (insert "x") :type 'text-read-only))
    (goto-char (point-max))
    (insert "x")
    (goto-char (edn-bridge-transcript-draft-start))
    (insert "y")
    (should (equal (edn-bridge-transcript-draft) "yx"))))

(ert-deftest edn-bridge-chat-leaves-point-in-the-transcript-where-it-is ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "abc")
    (goto-char (+ 3 (point-min)))
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "def")
    (should (= (point) (+ 3 (point-min))))))

(ert-deftest edn-bridge-chat-takes-the-message-over-the-deltas ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "abx")
    (edn-bridge-test-event conn "assistant/message" :session-id "s1"
                           :role "assistant"
                           :content [(:type :text :text "abc")])
    (should (equal (edn-bridge-test-transcript) "Assistant\nabc\n"))))

(ert-deftest edn-bridge-chat-ignores-what-is-not-its-session ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s2" :text "no")
    (edn-bridge-test-event conn "assistant/message" :session-id "s2"
                           :role "assistant"
                           :content [(:type :text :text "no")])
    (edn-bridge-test-event conn "session/updated" :session-id "s2"
                           :is-streaming t)
    (edn-bridge-test-event conn "topic/of-the-future" :x 1)
    (should (equal (edn-bridge-test-transcript) ""))
    (should-not (edn-bridge-chat-running-p))))

(ert-deftest edn-bridge-chat-rebuilds-without-duplicates ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-transcript-set-draft "draft")
    (dotimes (_ 2)
      (edn-bridge-test-event
       conn "session/rehydrated" :session-id "s1"
       :messages [(:id "e1" :role "user" :content [(:type :text :text "Hi")])
                  (:id "e2" :role "assistant"
                       :content [(:type :text :text "Hello")])]
       :tool-calls nil :tool-order []))
    (should (equal (edn-bridge-test-transcript)
                   "You\nHi\n\nAssistant\nHello\n"))
    (should (equal (edn-bridge-transcript-draft) "draft"))
    (goto-char (point-min))
    (search-forward "Hello")
    (should (equal (get-text-property (1- (point)) 'edn-bridge-entry) "e2"))))

(ert-deftest edn-bridge-chat-shows-pages-of-a-long-session ()
  (let ((edn-bridge-chat-page 10)
        (message (lambda (n) (list :id (format "e%d" n) :role "user"
                                   :content (vector (list :type :text
                                                          :text (format "m%d." n)))))))
    (edn-bridge-test-with-chat (conn sent)
      (edn-bridge-test-event
       conn "session/rehydrated" :session-id "s1"
       :messages (vconcat (mapcar message (number-sequence 11 30))))
      (should-not (string-match-p "m20\\." (edn-bridge-test-transcript)))
      (should (string-match-p "m21\\." (edn-bridge-test-transcript)))
      (edn-bridge-messages-show-earlier)
      (should (equal (plist-get (plist-get (car sent) :params) :before) "e21"))
      (edn-bridge-test-answer
       conn sent "get_messages"
       :messages (vconcat (mapcar message (number-sequence 11 20)))
       :more :false)
      (let ((text (edn-bridge-test-transcript)))
        (should (string-match-p "\\`You\nm11\\.\n\nYou\nm12" text))
        (should (< (string-match "m20\\." text) (string-match "m21\\." text)))
        (should-not (string-match-p "Earlier" text))))))

(ert-deftest edn-bridge-chat-goes-through-its-history ()
  (edn-bridge-test-with-chat (_conn _sent)
    (dolist (text '("one" "two"))
      (edn-bridge-transcript-set-draft text)
      (edn-bridge-input-send))
    (edn-bridge-input-previous 1)
    (should (equal (edn-bridge-transcript-draft) "two"))
    (edn-bridge-input-previous 1)
    (should (equal (edn-bridge-transcript-draft) "one"))
    (should-error (edn-bridge-input-previous 1) :type 'user-error)
    (edn-bridge-input-next 2)
    (should (equal (edn-bridge-transcript-draft) ""))))

(ert-deftest edn-bridge-chat-says-that-it-is-disconnected ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "session/updated" :session-id "s1"
                           :is-streaming t)
    (edn-bridge-rpc--closed conn "the process ended with status 70")
    (should (string-match-p "status 70.*\\[Connect again\\]"
                            (edn-bridge-test-transcript)))
    (should edn-bridge-chat--cut)
    (should-not (edn-bridge-chat-running-p))
    (should (string-match-p "disconnected" (edn-bridge-chat--header-line)))))

(provide 'edn-bridge-chat-tests)

;;; edn-bridge-chat-tests.el ends here
