;;; edn-bridge-chat-tests.el --- Tests of the chat buffer  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'imenu)
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

(ert-deftest edn-bridge-chat-shows-recorded-frames-however-they-are-split ()
  (let ((bytes (edn-bridge-test-bytes "tools.edn")))
    (dolist (size '(1 3 11 100 nil))
      (edn-bridge-test-with-chat (conn _sent)
        (setf (edn-bridge-rpc-connection-plist-frames conn) t)
        (setq edn-bridge-chat--session-id
              "s-01a201d18fc172b6b2cf823398cb446f")
        (edn-bridge-transcript-set-draft "draft")
        (edn-bridge-test-feed conn bytes size)
        (should (equal (edn-bridge-test-transcript)
                       (concat
                        "Assistant\nHello, **world**!\n\n"
                        "▸ bash     touch one done\n\n"
                        "Ran one.\n")))
        (should (equal (edn-bridge-transcript-draft) "draft"))
        (should-not (edn-bridge-chat-running-p))))))

(ert-deftest edn-bridge-input-text-and-turn-select-request ()
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

(ert-deftest edn-bridge-input-sends-the-region-and-leaves-the-draft ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                           :text "one two three")
    (edn-bridge-transcript-set-draft "draft")
    (let ((transient-mark-mode t))
      (goto-char (point-min))
      (search-forward "two")
      (push-mark (match-beginning 0) t t)
      (edn-bridge-input-send)
      (should-not mark-active))
    (should (equal (plist-get (plist-get (car sent) :params) :message) "two"))
    (should (equal (edn-bridge-transcript-draft) "draft"))))

(ert-deftest edn-bridge-input-queues-for-after-the-turn ()
  (pcase-dolist (`(,running ,op) '((t "follow_up") (nil "prompt")))
    (edn-bridge-test-with-chat (conn sent)
      (when running
        (edn-bridge-test-event conn "session/updated"
                               :session-id "s1" :is-streaming t))
      (edn-bridge-transcript-set-draft "later")
      (edn-bridge-input-queue)
      (should (equal (plist-get (car sent) :op) op)))))

(ert-deftest edn-bridge-chat-gives-the-draft-back-when-it-is-refused ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-transcript-set-draft "hello")
    (edn-bridge-input-send)
    (edn-bridge-rpc--dispatch-frame
     conn (list :kind :error :id (plist-get (car sent) :id) :op "prompt"
                :error-code "runtime/failed"
                :error-message "The session is not idle"))
    (should (equal (edn-bridge-transcript-draft) "hello"))
    (should (string-match-p "not idle" (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-chat-streaming-keeps-draft-and-undo ()
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

(ert-deftest edn-bridge-chat-shows-together-what-came-together ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((inserted 0)
          (bytes (mapconcat
                  (lambda (n)
                    (format "{:kind :event :event \"assistant/delta\" :seq %d :data {:session-id \"s1\" :text \"word \"}}\n" n))
                  (number-sequence 1 100) ""))
          (edn-bridge-rpc-dispatch-seconds 10))
      (add-hook 'after-change-functions
                (lambda (&rest _) (cl-incf inserted)) nil t)
      (edn-bridge-test-feed conn bytes)
      (should (equal (edn-bridge-test-transcript)
                     (concat "Assistant\n" (apply #'concat
                                                  (make-list 100 "word ")))))
      ;; The heading and the text; and no overlay.
      (should (< inserted 10))
      (should-not (overlays-in (point-min) (point-max))))))

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

(ert-deftest edn-bridge-chat-leaves-a-window-where-it-is-scrolled-to ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                           :text (apply #'concat (make-list 100 "line\n")))
    (save-window-excursion
      (delete-other-windows)
      (switch-to-buffer (current-buffer))
      (let ((other (split-window)))
        (set-window-point other 20)
        (set-window-start other 11)
        (goto-char (point-max))
        (insert "Go on")
        (edn-bridge-input-send)
        (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                               :text (apply #'concat (make-list 100 "more\n")))
        (should (equal (list (window-point other) (window-start other))
                       '(20 11)))
        (should (= (window-point) (point-max)))))))

(ert-deftest edn-bridge-chat-goes-from-button-to-button ()
  (edn-bridge-test-with-chat (_conn _sent)
    (edn-bridge-chat-notice "One" nil '("A" ignore) '("B" ignore))
    (edn-bridge-transcript-set-draft "draft")
    (let ((inhibit-message t)
          (visited nil))
      (goto-char (point-min))
      (dotimes (_ 3)
        (edn-bridge-chat-complete-or-next)
        (push (button-label (button-at (point))) visited))
      (edn-bridge-chat-previous-button)
      (push (button-label (button-at (point))) visited)
      (should (equal (nreverse visited) '("[A]" "[B]" "[A]" "[B]"))))))

(ert-deftest edn-bridge-chat-exit-asks-where-a-turn-is-running ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((asked 0)
          (noninteractive nil))
      (cl-letf (((symbol-function 'yes-or-no-p)
                 (lambda (&rest _) (cl-incf asked) nil)))
        (should (memq #'edn-bridge-chat--confirm-exit
                      kill-emacs-query-functions))
        (should (edn-bridge-chat--confirm-exit))
        (should (= asked 0))
        (edn-bridge-test-event conn "session/updated" :session-id "s1"
                               :is-streaming t)
        (should-not (edn-bridge-chat--confirm-exit))
        (should (= asked 1))))))

(ert-deftest edn-bridge-input-failure-suggests-once ()
  (should (equal (edn-bridge-input--failure
                  '(:error-message "No /x. Did you mean /xy?"
                    :data (:nearest ["xy"])))
                 "No /x. Did you mean /xy?"))
  (should (equal (edn-bridge-input--failure
                  '(:error-message "No x." :data (:nearest ["xy"])))
                 "No x.  Did you mean xy?")))

(ert-deftest edn-bridge-chat-typing-above-the-draft-goes-there ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "abc")
    (edn-bridge-transcript-set-draft "dra")
    (save-window-excursion
      (set-window-buffer nil (current-buffer))
      (goto-char (point-min))
      (execute-kbd-macro "ft"))
    (should (equal (edn-bridge-transcript-draft) "draft"))
    (should (equal (edn-bridge-test-transcript) "Assistant\nabc"))
    ;; A question's keys are its own.
    (let ((chosen nil))
      (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))
      (cl-letf (((symbol-function 'edn-bridge-interact--answer)
                 (lambda (_question value &rest _) (setq chosen value))))
        (save-window-excursion
          (set-window-buffer nil (current-buffer))
          (edn-bridge-interact-next)
          (execute-kbd-macro "y")))
      (should (equal chosen '(:ok t))))
    (should (equal (edn-bridge-transcript-draft) "draft"))))

(ert-deftest edn-bridge-chat-goes-from-message-to-message ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages [(:id "e1" :role "user" :content "one")
                (:id "e2" :role "assistant" :content "two")
                (:id "e3" :role "user" :content "three")])
    (let ((seen nil))
      (cl-flet ((note () (push (buffer-substring-no-properties
                                (line-beginning-position 2)
                                (line-end-position 2))
                               seen)))
        (goto-char (point-max))
        (dotimes (_ 3) (edn-bridge-chat-previous-message 1) (note))
        (edn-bridge-chat-next-message 1) (note)
        (edn-bridge-chat-next-message 2)
        (should (= (point) (point-max))))
      (should (equal (nreverse seen) '("three" "two" "one" "two"))))))

(ert-deftest edn-bridge-chat-has-an-index-of-what-the-user-said ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages [(:id "e1" :role "user"
                     :content [(:type :text :text "First\nand more")])
                (:id "e2" :role "assistant"
                     :content [(:type :text :text "Hello")])
                (:id "e3" :role "user"
                     :content [(:type :text :text "Second")])])
    (should (equal (mapcar #'car (funcall imenu-create-index-function))
                   '("First" "Second")))))

(ert-deftest edn-bridge-chat-takes-the-message-over-the-deltas ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "abx")
    (edn-bridge-test-event conn "assistant/message" :session-id "s1"
                           :role "assistant"
                           :content [(:type :text :text "abc")])
    (should (equal (edn-bridge-test-transcript) "Assistant\nabc\n"))))

(ert-deftest edn-bridge-chat-shorter-message-keeps-draft-free ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-transcript-set-draft "draft")
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                           :text "a long text that is taken back")
    (edn-bridge-test-event conn "assistant/message" :session-id "s1"
                           :role "assistant"
                           :content [(:type :text :text "short")])
    (should (equal (edn-bridge-test-transcript) "Assistant\nshort\n"))
    (goto-char (edn-bridge-transcript-draft-start))
    (insert "my ")
    (should (equal (edn-bridge-transcript-draft) "my draft"))))

(ert-deftest edn-bridge-chat-interrupted-message-is-shown-once ()
  (dolist (between
           (list (lambda (conn)
                   (edn-bridge-test-event
                    conn "tool/start" :session-id "s1" :tool-id "c1"
                    :tool-name "bash" :call-summary "ls"))
                 (lambda (_conn)
                   (edn-bridge-chat-notice "notice"))
                 (lambda (conn)
                   (edn-bridge-test-event conn "session/updated"
                                          :session-id "s1" :is-streaming t)
                   (edn-bridge-transcript-set-draft "wait")
                   (edn-bridge-input-send))))
    (dolist (later '("" " and later"))
      (edn-bridge-test-with-chat (conn _sent)
        (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                               :text "before")
        (funcall between conn)
        (unless (equal later "")
          (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                                 :text later))
        (edn-bridge-test-event
         conn "assistant/message" :session-id "s1" :role "assistant"
         :content (vector (list :type :text
                                :text (concat "before" later " end"))))
        (let ((text (edn-bridge-test-transcript)))
          (should (= 2 (length (split-string text "before"))))
          (should (= 2 (length (split-string text " end")))))))))

(ert-deftest edn-bridge-chat-nothing-stands-inside-a-running-answer ()
  (pcase-dolist
      (`(,below . ,between)
       (list (cons "notice\n" (lambda (_conn) (edn-bridge-chat-notice "notice")))
             (cons "done\n" (lambda (conn)
                             (edn-bridge-test-event
                              conn "command-result" :type "text"
                              :message "done")))
             (cons "You\n/status\n" (lambda (_conn)
                                      (edn-bridge-transcript-set-draft "/status")
                                      (edn-bridge-input-send)))
             (cons "Sure[?]\n\\[No (n)\\] \\[Yes (y)\\] \\[Cancel (q)\\] \n"
                   (lambda (conn)
                     (edn-bridge-test-ask conn "confirm" '(:prompt "Sure?"))))))
    (edn-bridge-test-with-chat (conn _sent)
      (edn-bridge-test-event conn "session/updated" :session-id "s1"
                             :is-streaming t :pending-message-count 0)
      (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                             :text "Look:\n```el\n# a com")
      (funcall between conn)
      (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                             :text "ment\n(x)\n```\nEnd **of** it")
      (let ((answer "Look:\n```el\n# a comment\n(x)\n```\nEnd **of** it"))
        (edn-bridge-test-event
         conn "assistant/message" :session-id "s1" :role "assistant"
         :entry-id "e1" :content (vector (list :type :text :text answer)))
        (ert-info (below)
          (should (string-match-p
                   (concat "\\`Assistant\n" (regexp-quote answer) "\n\n"
                           below "\\'")
                   (edn-bridge-test-transcript))))
        (goto-char (point-min))
        (search-forward "# a comm")
        (should (eq (get-text-property (point) 'face)
                    'edn-bridge-markdown-block))
        (search-forward "**of*")
        (should (eq (get-text-property (point) 'face)
                    'edn-bridge-markdown-bold))
        (should (equal (get-text-property (point) 'edn-bridge-entry) "e1"))
        (should-error (insert "x") :type 'text-read-only)))))

(ert-deftest edn-bridge-chat-knows-the-entry-of-a-streamed-message ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "abc")
    (edn-bridge-test-event conn "assistant/message" :session-id "s1"
                           :role "assistant" :entry-id "e7"
                           :content [(:type :text :text "abc")])
    (goto-char (point-min))
    (search-forward "ab")
    (should (equal (get-text-property (point) 'edn-bridge-entry) "e7"))))

(ert-deftest edn-bridge-chat-says-that-the-program-is-missing ()
  (edn-bridge-test-with-chat (_conn _sent)
    (let ((edn-bridge-program "/no/such/program"))
      (setq edn-bridge-chat--conn nil)
      (edn-bridge-chat-connect)
      (should (string-match-p "was not found.*\\[Connect\\]"
                              (edn-bridge-test-transcript))))))

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
      ;; The button may be pushed twice.
      (edn-bridge-messages-show-earlier)
      (edn-bridge-messages-show-earlier)
      (should (equal (plist-get (plist-get (car sent) :params) :before) "e21"))
      (dolist (requests (list sent (cdr sent)))
        (edn-bridge-test-answer
         conn requests "get_messages"
         :messages (vconcat (mapcar message (number-sequence 11 20)))
         :more :false))
      (let ((text (edn-bridge-test-transcript)))
        (should (string-match-p "\\`You\nm11\\.\n\nYou\nm12" text))
        (should (= 2 (length (split-string text "m15\\."))))
        (should (string-match-p "m20\\.\n\nYou\nm21\\." text))
        (should-not (string-match-p "Earlier" text)))
      ;; Where there is no more, nothing goes.
      (let ((before (edn-bridge-test-transcript)))
        (should-error (edn-bridge-messages-show-earlier) :type 'user-error)
        (should (equal before (edn-bridge-test-transcript)))))))

(ert-deftest edn-bridge-chat-counts-down-to-the-next-try ()
  (edn-bridge-test-with-chat (conn _sent)
    (cl-flet ((update (deadline)
                (edn-bridge-test-event
                 conn "session/updated" :session-id "s1" :is-streaming t
                 :phase "retrying" :retry-attempt 2 :retry '(:attempt 2)
                 :retry-deadline-ms deadline)))
      (update (* 1000 (+ (float-time) 30)))
      (should (string-match-p "retry 2 in \\(29\\|30\\) s"
                              (edn-bridge-chat--header-line)))
      (should edn-bridge-chat--clock)
      (update (* 1000 (- (float-time) 1)))
      (should (string-match-p "retry 2" (edn-bridge-chat--header-line)))
      (should-not (string-match-p "retry 2 in" (edn-bridge-chat--header-line)))
      ;; Who ends the chat ends the clock.
      (update (* 1000 (+ (float-time) 30)))
      (let ((clock edn-bridge-chat--clock))
        (edn-bridge-chat--on-kill)
        (should-not (memq clock timer-list))))))

(ert-deftest edn-bridge-chat-names-or-shows-images ()
  (edn-bridge-test-with-chat (conn _sent)
    (setq edn-bridge-input-images
          '((:mime-type "image/png" :data "iVBORw0KGgo=")))
    (edn-bridge-transcript-set-draft "Look")
    (edn-bridge-input-send)
    (should (equal (edn-bridge-test-transcript)
                   "You\nLook\n[image/png, 9]\n"))
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages [(:id "e1" :role "user"
                     :content [(:type :text :text "Look")
                               (:type :image :mime-type "image/png"
                                      :data "iVBORw0KGgo=")])])
    (should (equal (edn-bridge-test-transcript)
                   "You\nLook\n[image/png, 9]\n"))
    (goto-char (point-min))
    (search-forward "[image")
    (should-not (get-text-property (point) 'display))
    (cl-letf (((symbol-function 'display-images-p) (lambda (&rest _) t))
              ((symbol-function 'image-type-available-p) (lambda (_) t))
              ((symbol-function 'create-image)
               (lambda (data type &rest _) (and (eq type 'png) data))))
      ;; A drawing may name other files.
      (should-not (get-text-property
                   0 'display
                   (edn-bridge-messages--image
                    '(:mime-type "image/svg+xml" :data "PHN2Zz4="))))
      (should (equal (get-text-property
                      0 'display
                      (edn-bridge-messages--image
                       '(:mime-type "image/png" :data "iVBORw0KGgo=")))
                     "\211PNG\r\n\032\n"))
      ;; What is broken is named.
      (should-not (get-text-property
                   0 'display
                   (edn-bridge-messages--image
                    '(:mime-type "image/png" :data "not base64!")))))))

(ert-deftest edn-bridge-chat-leaves-a-message-whose-turn-runs ()
  (pcase-dolist (`(,streaming ,said) '((t nil) (:false t)))
    (edn-bridge-test-with-chat (conn _sent)
      (edn-bridge-test-event
       conn "session/rehydrated" :session-id "s1"
       :messages [(:id "e1" :role "user" :content [(:type :text :text "one")])])
      (edn-bridge-test-event conn "session/updated" :session-id "s1"
                             :is-streaming streaming)
      (edn-bridge-test-event conn "session/updated" :session-id "s1"
                             :is-streaming :false)
      (should (eq said (and (string-match-p "has no answer"
                                            (edn-bridge-test-transcript))
                            t))))))

(ert-deftest edn-bridge-chat-remembers-what-a-session-was-told ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages [(:id "e1" :role "user" :content [(:type :text :text "one")])
                (:id "e2" :role "assistant" :content [(:type :text :text "x")])
                (:id "e3" :role "user" :content [(:type :text :text "two")])])
    (edn-bridge-input-previous 1)
    (should (equal (edn-bridge-transcript-draft) "two"))
    (edn-bridge-input-previous 1)
    (should (equal (edn-bridge-transcript-draft) "one"))))

(ert-deftest edn-bridge-chat-is-not-killed-by-mistake-while-a-turn-runs ()
  (pcase-dolist (`(,streaming ,answer ,killed ,asked)
                 '((:false nil t nil) (t nil nil t) (t t t t)))
    (edn-bridge-test-with-chat (conn _sent)
      (edn-bridge-test-event conn "session/updated" :session-id "s1"
                             :is-streaming streaming)
      (let ((noninteractive nil)
            (was-asked nil))
        (cl-letf (((symbol-function 'yes-or-no-p)
                   (lambda (_prompt) (setq was-asked t) answer)))
          (should (eq killed
                      (run-hook-with-args-until-failure
                       'kill-buffer-query-functions))))
        (should (eq asked was-asked))))))

(ert-deftest edn-bridge-chat-says-how-to-begin ()
  (dolist (begin
           (list (lambda (_conn)
                   (edn-bridge-transcript-set-draft "Hi")
                   (edn-bridge-input-send))
                 ;; The session may be shown after the first message was sent.
                 (lambda (conn)
                   (edn-bridge-test-event conn "user/message" :role "user"
                                          :content "Hi"))
                 (lambda (conn)
                   (edn-bridge-test-event conn "command-result" :type "text"
                                          :message "Help"))))
    (edn-bridge-test-with-chat (conn _sent)
      (cl-flet ((above () (edn-bridge-transcript-footer)))
        (edn-bridge-test-event conn "session/rehydrated" :session-id "s1"
                               :messages [])
        (should (string-match-p "C-c RET sends .* C-c \\? shows" (above)))
        (funcall begin conn)
        (should-not (string-match-p "sends" (above)))
        (edn-bridge-test-event
         conn "session/rehydrated" :session-id "s1"
         :messages [(:id "e1" :role "user"
                         :content [(:type :text :text "Hi")])])
        (should-not (string-match-p "sends" (above)))))))

(ert-deftest edn-bridge-menu-is-a-help-buffer-without-transient ()
  (edn-bridge-test-with-chat (_conn _sent)
    (save-window-excursion
      (edn-bridge--help))
    (with-current-buffer "*edn-bridge help*"
      (pcase-dolist (`(,_title ,_key . ,rows) edn-bridge--menu)
        (pcase-dolist (`(,_key ,_command ,text) rows)
          (goto-char (point-min))
          (should (search-forward text nil t))))
      (goto-char (point-min))
      (should (re-search-forward "C-c RET +send" nil t))
      (kill-buffer))))

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
    (should (string-match-p "status 70.*\\[Reconnect\\]"
                            (edn-bridge-test-transcript)))
    (should edn-bridge-chat--cut)
    (should-not (edn-bridge-chat-running-p))
    (should (string-match-p "disconnected" (edn-bridge-chat--header-line)))))

;; What a command came to is for people.

(ert-deftest edn-bridge-chat-result-with-names-is-in-columns ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "command-result" :type "text"
     :message (concat "/a                                What it is.\n"
                      "/with [many] OR /other <arguments>  And this.")
     :session-id "s1")
    ;; Not padded alike: as it came.
    (should (string-search "/a                                What"
                           (edn-bridge-test-transcript)))
    (edn-bridge-test-event
     conn "command-result" :type "text"
     :message (concat "/a                                  What it is.\n"
                      "/with [many] OR /other <arguments>  And this.")
     :session-id "s1")
    (should (string-search (concat "/a                      What it is.\n"
                                   "/with [many] OR /other <arguments>\n"
                                   "                        And this.\n")
                           (edn-bridge-test-transcript)))
    (goto-char (point-max))
    (search-backward "And this")
    (should (equal (get-text-property (point) 'wrap-prefix)
                   (make-string 24 ?\s)))
    (search-backward "/with [many]")
    (should (memq 'edn-bridge-title
                  (ensure-list (get-text-property (point) 'face))))))

(provide 'edn-bridge-chat-tests)

;;; edn-bridge-chat-tests.el ends here
